use super::*;
use crate::import::ImportError;

const SCHEMA: &[ColumnSchema] = &[
    ColumnSchema { name: "at", kind: ColumnKind::TimeUs },
    ColumnSchema { name: "name", kind: ColumnKind::Text },
    ColumnSchema { name: "value", kind: ColumnKind::Number },
];

fn columns(rows: usize, names: usize) -> Vec<ColumnValues> {
    let mut texts = TextColumn::default();
    (0..rows).for_each(|row| texts.push(&format!("name {}", row % names)));
    let values = (0..rows as i64).map(|row| row * row - 7).collect();
    vec![ColumnValues::Numbers(vec![5; rows]), ColumnValues::Texts(texts), ColumnValues::Numbers(values)]
}

fn file(groups: &[Vec<ColumnValues>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = ParquetWriter::new(&mut bytes, SCHEMA).expect("in memory");
    groups.iter().for_each(|group| writer.group(group).expect("in memory"));
    writer.finish().expect("in memory");
    bytes
}

#[test]
fn tables_are_read_as_written() {
    for (rows, names) in [(1, 1), (7, 2), (8, 3), (9, 9), (1000, 1), (1000, 300), (70_000, 66_000)] {
        let table = read(&file(&[columns(rows, names)])).expect("of ours");
        assert_eq!(table.rows(), rows);
        let texts = table.texts("name").expect("a column");
        assert!((0..rows).all(|row| texts.text(row) == format!("name {}", row % names)), "{rows} {names}");
        let ColumnValues::Numbers(values) = &columns(rows, names)[2] else { panic!("numbers") };
        assert_eq!(table.numbers("value"), Some(values.as_slice()));
    }
}

#[test]
fn groups_of_rows_follow_each_other() {
    let table = read(&file(&[columns(3, 2), Vec::new(), columns(10, 10)])).expect("of ours");
    let texts = table.texts("name").expect("a column");
    let names: Vec<&str> = (0..13).map(|row| texts.text(row)).collect();
    assert_eq!(names[..5], ["name 0", "name 1", "name 0", "name 0", "name 1"]);
    assert_eq!(names[12], "name 9");
    assert_eq!(read(&file(&[])).expect("of ours").rows(), 0);
}

#[test]
fn every_truncation_and_every_damaged_byte_is_an_error_or_a_table() {
    let bytes = file(&[columns(20, 5), columns(4, 4)]);
    for len in 0..bytes.len() {
        assert!(read(&bytes[..len]).is_err(), "{len}");
    }
    for at in 0..bytes.len() {
        for change in [0x01, 0x40, 0xff] {
            let mut damaged = bytes.clone();
            damaged[at] ^= change;
            if let Ok(table) = read(&damaged) {
                assert!(table.columns.iter().all(|(_, values)| values.len() == table.rows()));
            }
        }
    }
}

#[test]
fn columns_with_missing_values_are_refused_by_name() {
    let mut bytes = file(&[columns(2, 2)]);
    // The repetition of column `at`: field 3 after field 1, a number of 32 bits.
    let at = bytes.windows(4).position(|four| four == [0x25, 0x00, 0x18, 0x02]).expect("an element");
    bytes[at + 1] = 2;
    assert!(matches!(read(&bytes), Err(ImportError::Unsupported(_))));
}
