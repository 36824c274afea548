import CHiredis

/// Returns the version of hiredis that this program was built with; the library does not report its own.
public func hiredisVersion() -> String { "\(HIREDIS_MAJOR).\(HIREDIS_MINOR).\(HIREDIS_PATCH)" }
