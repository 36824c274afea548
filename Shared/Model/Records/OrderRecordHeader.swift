/// Headers of `waybill.orders`, and also of `waybill.registrations` for records that moved to another partition.
public enum OrderRecordHeader {
    /// Marks a version that no device is to be notified of; its value is `1`. The next notification covers it as well.
    public static let silent = "waybill-silent"
}
