/// Headers of `waybill.orders`, and of records that moved to another partition also of `waybill.registrations`.
public enum OrderRecordHeader {
    /// Of a version that no device is to be told of; its value is `1`. The next version tells of it as well.
    public static let silent = "waybill-silent"
}
