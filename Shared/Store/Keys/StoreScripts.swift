/// The scripts that change Redis, each in the folder of the types that call it. Each touches one slot.
enum StoreScripts {}
