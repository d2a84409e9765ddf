//! Names of the kernel's errors.
//!
//! Source: include/uapi/asm-generic/errno-base.h, errno.h; include/linux/errno.h (512 on) of Linux 6.18.

/// Names of 1 on; `-` where there is none.
const NAMES: &str = "\
    EPERM ENOENT ESRCH EINTR EIO ENXIO E2BIG ENOEXEC EBADF ECHILD EAGAIN ENOMEM EACCES EFAULT ENOTBLK EBUSY EEXIST \
    EXDEV ENODEV ENOTDIR EISDIR EINVAL ENFILE EMFILE ENOTTY ETXTBSY EFBIG ENOSPC ESPIPE EROFS EMLINK EPIPE EDOM \
    ERANGE EDEADLK ENAMETOOLONG ENOLCK ENOSYS ENOTEMPTY ELOOP - ENOMSG EIDRM ECHRNG EL2NSYNC EL3HLT EL3RST ELNRNG \
    EUNATCH ENOCSI EL2HLT EBADE EBADR EXFULL ENOANO EBADRQC EBADSLT - EBFONT ENOSTR ENODATA ETIME ENOSR ENONET \
    ENOPKG EREMOTE ENOLINK EADV ESRMNT ECOMM EPROTO EMULTIHOP EDOTDOT EBADMSG EOVERFLOW ENOTUNIQ EBADFD EREMCHG \
    ELIBACC ELIBBAD ELIBSCN ELIBMAX ELIBEXEC EILSEQ ERESTART ESTRPIPE EUSERS ENOTSOCK EDESTADDRREQ EMSGSIZE \
    EPROTOTYPE ENOPROTOOPT EPROTONOSUPPORT ESOCKTNOSUPPORT EOPNOTSUPP EPFNOSUPPORT EAFNOSUPPORT EADDRINUSE \
    EADDRNOTAVAIL ENETDOWN ENETUNREACH ENETRESET ECONNABORTED ECONNRESET ENOBUFS EISCONN ENOTCONN ESHUTDOWN \
    ETOOMANYREFS ETIMEDOUT ECONNREFUSED EHOSTDOWN EHOSTUNREACH EALREADY EINPROGRESS ESTALE EUCLEAN ENOTNAM ENAVAIL \
    EISNAM EREMOTEIO EDQUOT ENOMEDIUM EMEDIUMTYPE ECANCELED ENOKEY EKEYEXPIRED EKEYREVOKED EKEYREJECTED EOWNERDEAD \
    ENOTRECOVERABLE ERFKILL EHWPOISON";

/// The errors by which the kernel repeats a call after a signal.
const RESTARTS: &[(i64, &str)] =
    &[(512, "ERESTARTSYS"), (513, "ERESTARTNOINTR"), (514, "ERESTARTNOHAND"), (516, "ERESTART_RESTARTBLOCK")];

/// The error that a call returned, if it did.
#[must_use]
pub fn of(ret: i64) -> Option<i64> {
    (-4095..0).contains(&ret).then_some(-ret)
}

/// Name: `ENOENT`.
#[must_use]
pub fn name(errno: i64) -> Option<&'static str> {
    let at = usize::try_from(errno).ok()?.checked_sub(1)?;
    let restart = || RESTARTS.iter().find(|(number, _)| *number == errno).map(|(_, name)| *name);
    NAMES.split_whitespace().nth(at).filter(|name| *name != "-").or_else(restart)
}

/// Meaning: `No such file or directory`.
#[must_use]
pub fn meaning(errno: i64) -> String {
    if errno >= 512 {
        return "interrupted by a signal".to_owned();
    }
    let error = std::io::Error::from_raw_os_error(i32::try_from(errno).unwrap_or(0));
    let text = error.to_string();
    text.split_once(" (os error ").map_or(text.clone(), |(meaning, _)| meaning.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_the_names_of_the_kernels_headers() {
        let known =
            [(1, "EPERM"), (2, "ENOENT"), (11, "EAGAIN"), (40, "ELOOP"), (42, "ENOMSG"), (59, "EBFONT")];
        known.iter().for_each(|(errno, expected)| assert_eq!(name(*errno), Some(*expected)));
        let known = [(110, "ETIMEDOUT"), (115, "EINPROGRESS"), (133, "EHWPOISON"), (512, "ERESTARTSYS")];
        known.iter().for_each(|(errno, expected)| assert_eq!(name(*errno), Some(*expected)));
        assert_eq!((name(41), name(134), name(0)), (None, None, None));
        assert_eq!((of(-2), of(0), of(-4096), of(7)), (Some(2), None, None, None));
        assert_eq!(meaning(2), "No such file or directory");
    }
}
