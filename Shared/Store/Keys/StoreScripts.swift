/// The scripts that change Redis, each beside the types that call it. Each touches one slot.
enum StoreScripts {}
