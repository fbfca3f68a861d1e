use super::*;
use proptest::prelude::*;

#[test]
fn rows_are_bounded_by_number_and_memory() {
    let rows: Vec<Entry<1>> = (0..9).map(|at| Entry::new([at, 0, 0], [Some(at)])).collect();
    let read = |written: usize, most: usize, room: usize| {
        let mut out = Columns::default();
        Table::new(0, [Kind::Level], written).encode(&rows, &mut out);
        let mut table: Table<1> = Table::new(0, [Kind::Level], most);
        table.decode(&mut out.reader().unwrap(), room).map(|()| table.entries().len())
    };
    let room = 9 * size_of::<Row<1>>();
    let nothing = Table::new(99, [Kind::Level], 9).decode(&mut Columns::default().reader().unwrap(), room);
    assert_eq!(nothing, Ok(()), "a table that an older version did not write");
    assert_eq!((read(20, 9, room), read(4, 9, room)), (Ok(9), Ok(4)));
    assert_eq!((read(20, 8, room), read(20, 9, room - 1)), (Err(TOO_MANY), Err(TOO_MANY)));
}

/// Lists of rows with different keys, in any order.
fn lists() -> impl Strategy<Value = Vec<Vec<Entry<2>>>> {
    let row =
        (0_u64..12, any::<[Option<u64>; 2]>()).prop_map(|(key, values)| Entry::new([key, 0, 0], values));
    let list = prop::collection::vec(row, 0..12).prop_map(|mut rows: Vec<Entry<2>>| {
        let mut seen = std::collections::BTreeSet::new();
        rows.retain(|row| seen.insert(row.key));
        rows
    });
    (prop::collection::vec((list, any::<bool>()), 1..8)).prop_map(|lists| {
        let sorted = lists.into_iter().map(|(mut rows, is_sorted)| {
            if is_sorted {
                rows.sort_unstable_by_key(|row| row.key);
            }
            rows
        });
        sorted.collect()
    })
}

proptest! {
    #[test]
    fn any_lists_are_read_as_they_were_written(lists in lists()) {
        let new = || Table::new(0, [Kind::Counter, Kind::Level], 9);
        let (mut written, mut read): (Table<2>, Table<2>) = (new(), new());
        for rows in lists {
            let mut out = Columns::default();
            written.encode(&rows, &mut out);
            read.decode(&mut out.reader().unwrap(), usize::MAX).unwrap();
            let rows = &rows[..rows.len().min(9)];
            prop_assert!(written.entries().eq(rows), "{:?}", written.rows);
            prop_assert!(read.entries().eq(rows), "{:?}", read.rows);
        }
    }
}

/// Rows that stay at both ends are not compared with those between them, so that a thread that begins or ends does not cost as
/// much as all of them.
#[test]
fn only_rows_between_those_that_stay_are_edited() {
    let rows = |keys: &[u64]| keys.iter().map(|&key| Entry::new([key, 0, 0], [Some(1)])).collect::<Vec<_>>();
    let mut table: Table<1> = Table::new(0, [Kind::Level], 100);
    table.encode(&rows(&[1, 2, 3, 4, 5]), &mut Columns::default());
    let keys = [1, 2, 9, 4, 5];
    let unchanged = |spans: &[(&[u64], Option<usize>)]| {
        let spans: Vec<_> = spans.iter().map(|&(rows, former)| Span { rows, former }).collect();
        table.unchanged(&spans, spans.iter().map(|span| span.rows.len()).sum(), |key| [*key, 0, 0])
    };
    assert_eq!(unchanged(&[(&keys, None)]), (2, 2));
    assert_eq!(unchanged(&[(&keys[..3], None)]), (2, 0));
    assert_eq!(unchanged(&[(&[1, 2, 3, 4, 5, 5], None)]), (5, 0));
    assert_eq!(unchanged(&[(&[1], Some(0)), (&[2, 9, 4], None), (&[5], Some(4))]), (2, 2));
    assert_eq!(unchanged(&[(&[4, 5], Some(3)), (&[4, 5], Some(3))]), (0, 2));
    assert_eq!(unchanged(&[(&[1, 2], Some(0)), (&[1, 2], Some(0)), (&[3, 4, 5], Some(2))]), (2, 3));
    table.encode(&rows(&keys), &mut Columns::default());
    assert!(table.entries().map(|row| row.key[0]).eq(keys));
}

/// A table with as many rows as it may have was refused if a row began in it before another one ended.
#[test]
fn a_full_table_in_which_rows_begin_and_end_is_read() {
    let rows = |keys: [u64; 3]| keys.map(|key| Entry::new([key, 0, 0], [Some(1)]));
    let new = || Table::new(0, [Kind::Level], 3);
    let (mut written, mut read): (Table<1>, Table<1>) = (new(), new());
    for keys in [[1, 2, 3], [9, 1, 2], [8, 7, 6]] {
        let mut out = Columns::default();
        written.encode(&rows(keys), &mut out);
        read.decode(&mut out.reader().unwrap(), usize::MAX).unwrap();
        assert!(read.entries().map(|row| row.key[0]).eq(keys));
    }
}
