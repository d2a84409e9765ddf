//! Numbers that nobody can guess.

use std::io;

/// Fills `bytes` from the kernel's generator.
///
/// # Errors
/// `ENOSYS` where a seccomp filter forbids it.
pub fn fill(bytes: &mut [u8]) -> io::Result<()> {
    let mut filled = 0;
    while let Some(rest @ [_, ..]) = bytes.get_mut(filled..) {
        // SAFETY: the kernel writes at most `rest.len()` bytes into a live buffer of that length.
        let n = unsafe { libc::getrandom(rest.as_mut_ptr().cast(), rest.len(), 0) };
        match usize::try_from(n) {
            Ok(n) => filled += n,
            Err(_) => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn two_fillings_differ() {
        let (mut one, mut other) = ([0; 16], [0; 16]);
        super::fill(&mut one).expect("the kernel has random bytes");
        super::fill(&mut other).expect("the kernel has random bytes");
        assert!(one != other && one != [0; 16]);
    }
}
