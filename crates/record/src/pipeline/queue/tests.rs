use super::*;

const SMALL: Limits = Limits { front: 30, back: 40, spill: 1 << 20 };

fn buffer(number: u8) -> Vec<u8> {
    vec![number; 10]
}

fn drained(queue: &Queue) -> Vec<u8> {
    queue.close();
    std::iter::from_fn(|| queue.pop()).map(|b| b[0]).collect()
}

/// Waits until the spiller has nothing left to do.
fn settle(queue: &Queue) {
    while !queue.inner.lock().back.is_empty() || queue.inner.lock().is_writing {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

#[test]
fn what_does_not_fit_memory_comes_back_from_disk_in_order() {
    let queue = Queue::new(&std::env::temp_dir(), SMALL);
    (0..100).for_each(|i| queue.push(buffer(i)));
    settle(&queue);
    assert!(queue.is_behind());
    assert_eq!((queue.room(), queue.waiting_bytes()), (Room::Stacks, 1000));
    assert_eq!(drained(&queue), (0..100).collect::<Vec<u8>>());
    let spilled = queue.spilled();
    assert_eq!((spilled.bytes, spilled.unread_bytes, spilled.broken), (970, 0, None));
}

#[test]
fn order_is_kept_while_one_thread_pushes_and_another_pops() {
    let queue = Queue::new(&std::env::temp_dir(), SMALL);
    let reader = {
        let queue = queue.clone();
        std::thread::spawn(move || std::iter::from_fn(|| queue.pop()).map(|b| b[0]).collect::<Vec<u8>>())
    };
    for i in 0..=255u8 {
        queue.push(buffer(i));
        if i % 16 == 0 {
            std::thread::yield_now();
        }
    }
    queue.close();
    assert_eq!(reader.join().expect("no panic"), (0..=255).collect::<Vec<u8>>());
}

#[test]
fn a_disk_that_fails_leaves_no_room_and_loses_nothing() {
    let queue = Queue::new(Path::new("/proc/no-such-dir"), SMALL);
    let mut rooms = Vec::new();
    for i in 0..11 {
        rooms.push(queue.room());
        queue.push(buffer(i));
    }
    assert_eq!(rooms[..7], [Room::Stacks; 7]);
    assert_eq!((rooms[7], rooms[10], queue.room()), (Room::Records, Room::Records, Room::None));
    assert_eq!(drained(&queue), (0..11).collect::<Vec<u8>>());
    let given_up = (0..5000).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(1));
        queue.spilled().broken.is_some()
    });
    assert!(given_up);
}

#[test]
fn a_full_spill_file_is_given_up_and_what_it_holds_still_comes_first() {
    let queue = Queue::new(&std::env::temp_dir(), Limits { spill: 25, ..SMALL });
    (0..9).for_each(|i| queue.push(buffer(i)));
    assert_eq!(drained(&queue), (0..9).collect::<Vec<u8>>());
}
