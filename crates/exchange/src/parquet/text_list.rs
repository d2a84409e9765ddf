//! Many texts in one piece of memory.

use std::iter::once;

/// Texts by number. One allocation for all: a file of a fleet has ten thousands, and each is looked at once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TextList {
    texts: String,
    /// End of each in `texts`, bytes.
    ends: Vec<usize>,
}

impl TextList {
    /// How many.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// True without texts.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// A text by its number; `None` if there are fewer.
    #[must_use]
    pub fn get(&self, number: usize) -> Option<&str> {
        let end = *self.ends.get(number)?;
        let begin = if number == 0 { 0 } else { self.ends[number - 1] };
        self.texts.get(begin..end)
    }

    /// All, by number.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &str> {
        (0..self.len()).map(|number| self.get(number).unwrap_or_default())
    }

    /// Adds one.
    pub fn push(&mut self, text: &str) {
        self.texts.push_str(text);
        self.ends.push(self.texts.len());
    }

    /// Adds many that lie next to each other in `texts`, each to its end in bytes. Parts that are no UTF-8 become
    /// replacement characters.
    pub fn extend(&mut self, texts: Vec<u8>, ends: &[usize]) {
        // One check of all is several times as fast as one of each.
        match String::from_utf8(texts) {
            Ok(texts) if ends.iter().all(|end| texts.is_char_boundary(*end)) => {
                let before = self.texts.len();
                if before == 0 {
                    self.texts = texts
                } else {
                    self.texts.push_str(&texts)
                }
                self.ends.extend(ends.iter().map(|end| before + end));
            }
            Ok(texts) => self.extend_lossy(texts.as_bytes(), ends),
            Err(error) => self.extend_lossy(error.as_bytes(), ends),
        }
    }

    /// Its memory.
    #[must_use]
    pub fn into_memory(self) -> Vec<u8> {
        self.texts.into_bytes()
    }

    fn extend_lossy(&mut self, texts: &[u8], ends: &[usize]) {
        for (begin, end) in once(&0).chain(ends).zip(ends) {
            self.push(&String::from_utf8_lossy(&texts[*begin..*end]));
        }
    }
}

#[cfg(test)]
mod unit_tests {
    use super::*;

    #[test]
    fn texts_that_are_no_utf_8_or_share_a_character_are_mended_each_alone() {
        let mut list = TextList::default();
        list.push("first");
        list.extend("a\u{e9}b".into(), &[1, 3, 3, 4]);
        // The last two split a character between them.
        list.extend(b"x\xffy\xc3\xa9".to_vec(), &[3, 4, 5]);
        list.extend("\u{e9}".into(), &[1, 2]);
        let texts: Vec<&str> = list.iter().collect();
        let mended = "\u{fffd}";
        let expected = ["first", "a", "\u{e9}", "", "b", "x\u{fffd}y", mended, mended, mended, mended];
        assert_eq!(texts, expected);
        assert_eq!((list.len(), list.get(10)), (10, None));
    }
}
