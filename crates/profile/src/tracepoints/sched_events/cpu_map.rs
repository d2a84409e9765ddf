//! Threads on each CPU after each switch, with two letters for each thread.

use rustc_hash::FxHashMap;

/// Two characters for a thread: `A0`, `B0` … `Z0`, `A1` …; `. ` for an idle CPU.
pub type ShortName = [char; 2];

const IDLE: ShortName = ['.', ' '];

/// Threads by CPU, from switches in time order.
#[derive(Debug, Default)]
pub struct CpuMap {
    names: FxHashMap<i32, ShortName>,
    /// How many have letters.
    named: u16,
    current: Vec<Option<ShortName>>,
}

impl CpuMap {
    /// A thread comes onto a CPU below 65,536; returns its letters.
    pub fn switch_to(&mut self, cpu: u16, tid: i32) -> ShortName {
        let cpu = usize::from(cpu);
        if cpu >= self.current.len() {
            self.current.resize(cpu + 1, None);
        }
        let name = match (tid, self.names.get(&tid)) {
            (super::IDLE, _) => IDLE,
            (_, Some(&name)) => name,
            _ => self.give_name(tid),
        };
        self.current[cpu] = Some(name);
        name
    }

    /// Thread on each CPU, by CPU number; `None` where no switch was seen yet.
    #[must_use]
    pub fn current(&self) -> &[Option<ShortName>] {
        &self.current
    }

    /// After 260 threads the letters are given once more.
    fn give_name(&mut self, tid: i32) -> ShortName {
        let (letter, digit) = (self.named % 26, self.named / 26 % 10);
        let char = |first: u8, nth: u16| char::from(first + nth as u8);
        let name = [char(b'A', letter), char(b'0', digit)];
        self.names.insert(tid, name);
        self.named = (self.named + 1) % 260;
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_get_letters_in_the_order_they_come() {
        let mut map = CpuMap::default();
        assert_eq!(map.switch_to(0, 70), ['A', '0']);
        assert_eq!(map.switch_to(2, 71), ['B', '0']);
        assert_eq!(map.switch_to(0, 0), IDLE);
        assert_eq!(map.switch_to(1, 70), ['A', '0']);
        assert_eq!(map.current(), [Some(IDLE), Some(['A', '0']), Some(['B', '0'])]);
    }

    #[test]
    fn the_261st_thread_gets_the_first_letters_again() {
        let mut map = CpuMap::default();
        let names: Vec<ShortName> = (1..=261).map(|tid| map.switch_to(0, tid)).collect();
        assert_eq!((names[26], names[259], names[260]), (['A', '1'], ['Z', '9'], ['A', '0']));
    }
}
