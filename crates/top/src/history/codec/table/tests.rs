use super::*;

#[test]
fn rows_are_bounded_by_number_and_memory() {
    let rows: Vec<Entry<1>> = (0..9).map(|at| Entry::new([at, 0, 0], [Some(at)])).collect();
    let read = |written: usize, most: usize, room: usize| {
        let mut out = Columns::default();
        Table::new(0, [Kind::Level], written).encode(&rows, &mut out);
        let mut table: Table<1> = Table::new(0, [Kind::Level], most);
        table.decode(&mut out.reader().unwrap(), room).map(|()| table.entries().len())
    };
    let too_many = Err(Malformed("it has too many rows"));
    let room = 9 * size_of::<Row<1>>();
    let nothing = Table::new(99, [Kind::Level], 9).decode(&mut Columns::default().reader().unwrap(), room);
    assert_eq!(nothing, Ok(()), "a table that an older version did not write");
    assert_eq!((read(20, 9, room), read(4, 9, room)), (Ok(9), Ok(4)));
    assert_eq!((read(20, 8, room), read(20, 9, room - 1)), (too_many, too_many));
}
