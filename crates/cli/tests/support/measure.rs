//! Measurements that others on the machine may disturb.

/// Measures again, twice at most, until a measurement is good enough; the last one otherwise.
pub fn measure_until<T>(mut measure: impl FnMut() -> T, is_enough: impl Fn(&T) -> bool) -> T {
    let mut found = measure();
    for _ in 0..2 {
        if !is_enough(&found) {
            found = measure();
        }
    }
    found
}
