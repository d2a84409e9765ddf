// A Rust program with generics, closures, iterators, a trait object, and deep inlining.
// build words: -O -g
// build words-plain: -O
//
// words [ROUNDS]
use std::collections::HashMap;

trait Score {
    fn score(&self, word: &str) -> u64;
}

struct Vowels;
struct Length {
    weight: u64,
}

impl Score for Vowels {
    #[inline(never)]
    fn score(&self, word: &str) -> u64 {
        word.chars().filter(|c| "aeiou".contains(*c)).count() as u64
    }
}

impl Score for Length {
    #[inline(never)]
    fn score(&self, word: &str) -> u64 {
        word.len() as u64 * self.weight
    }
}

#[inline(never)]
fn count<'a>(text: &'a str, table: &mut HashMap<&'a str, u64>) {
    for word in text.split_whitespace().map(|word| word.trim_matches(',')) {
        *table.entry(word).or_default() += 1;
    }
}

#[inline(never)]
fn rank(table: &HashMap<&str, u64>, scores: &[Box<dyn Score>]) -> u64 {
    let mut rows: Vec<(u64, &str)> = table
        .iter()
        .map(|(word, count)| (scores.iter().map(|score| score.score(word)).sum::<u64>() * count, *word))
        .collect();
    rows.sort_by(|a, b| b.cmp(a));
    rows.iter().take(3).map(|(score, _)| score).sum()
}

fn main() {
    let rounds: u32 = std::env::args().nth(1).and_then(|arg| arg.parse().ok()).unwrap_or(60_000);
    let text = "the quick brown fox, jumps over the lazy dog, while a profiler counts ".repeat(40);
    let scores: Vec<Box<dyn Score>> = vec![Box::new(Vowels), Box::new(Length { weight: 2 })];
    let mut sum = 0;
    for _ in 0..rounds {
        let mut table = HashMap::new();
        count(&text, &mut table);
        sum += rank(&table, &scores);
    }
    println!("{sum}");
}
