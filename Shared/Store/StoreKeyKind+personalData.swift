extension StoreKeyKind {
    /// The data of an order, a device, a person or a picture that keys of a kind have, and its end.
    public struct PersonalData: Hashable, Sendable {
        public enum End: Hashable, Sendable {
            /// The removal of the order.
            case removal
            /// This many seconds after the removal of the order, or after the last use of what the key has.
            case seconds(Int64)
            /// An event, in words, that has no date.
            case event(String)
        }

        public let what: String
        public let end: End
    }

    /// The data of a person that the keys have, once an order is removed or before; nil: none.
    ///
    /// `privacy.md` and the report of `forget` name each of them.
    public var personalData: PersonalData? {
        func data(_ what: String, _ end: PersonalData.End) -> PersonalData { PersonalData(what: what, end: end) }
        let pictureEnd = PersonalData.End.event("until the picture is fetched or given up")
        switch self {
        case .order:
            return data("version, token, and identifiers of its last changes", .seconds(OrderStore.removedSeconds))
        case .gone: return data("its key", .seconds(OrderStore.goneSeconds))
        case .devices: return data("devices and their push tokens", .removal)
        case .devicesStamps: return data("devices", .removal)
        case .devicesEnded: return data("its key, and digests of devices", .seconds(Registrations.endedSeconds))
        case .devicesAdmitted: return data("its key", .seconds(Registrations.hourMilliseconds / 1000))
        case .listed, .listedStamps: return data("its identifier, under digests of devices", .removal)
        case .listedEnded: return data("its digest, under digests of devices", .seconds(Registrations.endedSeconds))
        case .asset:
            return data(
                "fetched pictures that no other order has",
                .event("until the second of two sweeps, a day apart, finds no order that has them"))
        case .picture: return data("addresses of its pictures", .seconds(Pictures.keptSeconds))
        case .picturesDue: return data("addresses of its pictures", pictureEnd)
        case .picturesWaiting: return data("its key, and addresses of its pictures", pictureEnd)
        case .documentsDue, .documentsWaiting:
            return data(
                "its key, and addresses of its documents",
                .event("until the document is fetched or given up, or is next due: six hours at most"))
        case .packageRequests: return data("its key", .event("until a packager takes it"))
        case .token:
            return data(
                "a digest of its token and its key, if the token was handed out", .seconds(TokenIndex.keptSeconds))
        case .parcelOwner, .parcel: return data("its key, under digests of carrier and number", .removal)
        case .repeated:
            return data("answers of the checkout role, encrypted", .seconds(RepeatedRequests.keptSeconds))
        case .work, .suspects:
            return data("digests of its key, and of its registrations", .seconds(WorkMarks.keptMilliseconds / 1000))
        // Digests of pictures, sums of bytes, counts by brand and day, names of merchants, places in Kafka, and the
        // progress of restores.
        case .documentBytes, .assetUnused, .assetSweep, .claims, .notifiedPositions, .adoption, .adoptionTurn,
            .partitions, .bookmark, .epoch, .tails, .plan, .startedEmpty, .marked, .slotMark, .jobs:
            return nil
        }
    }
}
