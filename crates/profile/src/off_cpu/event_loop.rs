//! Event loops of language runtimes, by the names of their functions.

/// The function in which a loop waits, and the one that calls it: of libuv (Node, uvloop), and of asyncio, whose names have
/// their class from Python 3.11 on.
const LOOPS: &[(&str, &str)] =
    &[("uv__io_poll", "uv_run"), ("select (selectors.py)", "_run_once (base_events.py)")];

/// True if a wait's functions, leaf first, are those of a loop that has nothing to do until an event comes.
pub(crate) fn is_of_event_loop<'n>(names: impl Iterator<Item = &'n str> + Clone) -> bool {
    let callers = names.clone().skip(1);
    names.zip(callers).any(|(name, caller)| {
        LOOPS.iter().any(|(waits, loops)| is_method(name, waits) && is_method(caller, loops))
    })
}

/// True for a function of this name, in whatever class.
fn is_method(name: &str, function: &str) -> bool {
    name.strip_suffix(function).is_some_and(|class| class.is_empty() || class.ends_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_that_waits_for_events_is_told_from_a_handler_that_does() {
        let is = |names: &str| is_of_event_loop(names.split('|'));
        let asyncio = "BaseEventLoop._run_once (base_events.py)|BaseEventLoop.run_forever (base_events.py)";
        assert!(is(&format!("epoll_wait|select_epoll_poll|EpollSelector.select (selectors.py)|{asyncio}")));
        assert!(is("epoll_wait|select (selectors.py)|_run_once (base_events.py)|run (runners.py)"));
        assert!(is("epoll_pwait|uv__io_poll|uv_run|node::SpinEventLoopInternal"));
        assert!(!is(&format!("select|ask (app.py)|Handle._run (events.py)|{asyncio}")));
        // subprocess.communicate() in a handler has a selector of its own.
        assert!(!is("poll|_PollLikeSelector.select (selectors.py)|Popen._communicate (subprocess.py)"));
    }
}
