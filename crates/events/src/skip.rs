//! Which fields are left out when a payload is written.

pub(crate) fn is_zero(number: &u64) -> bool {
    *number == 0
}

pub(crate) fn is_false(flag: &bool) -> bool {
    !flag
}
