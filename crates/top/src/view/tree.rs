//! The order of rows as a tree of parents and children.

use super::task_rows::TaskRows;
use std::collections::HashMap;

/// Rows further inside are drawn at this depth.
const MOST_DEPTH: usize = 16;

/// Orders rows so that children follow their parent, siblings sorted by a column. Returns for each row the strokes that
/// are drawn before its name. Rows whose parent is not shown are at the top.
pub(super) fn arrange(
    order: &mut Vec<u32>,
    rows: &TaskRows,
    column: Option<usize>,
    is_reversed: bool,
) -> Vec<String> {
    if let Some(column) = column {
        super::table::sort(order, rows, column, is_reversed);
    }
    let places: HashMap<u32, usize> =
        order.iter().enumerate().map(|(at, &row)| (rows.rows[row as usize].tree_id(), at)).collect();
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); order.len()];
    let mut roots = Vec::new();
    for (at, &row) in order.iter().enumerate() {
        let row = &rows.rows[row as usize];
        match places.get(&row.tree_parent()).filter(|&&parent| parent != at) {
            Some(&parent) => children[parent].push(at),
            None => roots.push(at),
        }
    }
    let (mut sorted, mut strokes) = (Vec::with_capacity(order.len()), Vec::with_capacity(order.len()));
    let mut is_placed = vec![false; order.len()];
    let mut todo: Vec<(usize, String, Option<bool>)> =
        roots.into_iter().rev().map(|at| (at, String::new(), None)).collect();
    while let Some((at, before, is_last)) = todo.pop() {
        if std::mem::replace(&mut is_placed[at], true) {
            continue;
        }
        sorted.push(order[at]);
        let (own, below) = match is_last {
            None => (String::new(), String::new()),
            Some(true) => (format!("{before}└─"), format!("{before}  ")),
            Some(false) => (format!("{before}├─"), format!("{before}│ ")),
        };
        let below = if below.chars().count() > 2 * MOST_DEPTH { before } else { below };
        strokes.push(own);
        let last = children[at].last().copied();
        todo.extend(
            children[at].iter().rev().map(|&child| (child, below.clone(), Some(Some(child) == last))),
        );
    }
    // Parents that are each other's children exist if an id was used again between two readings.
    for (at, _) in is_placed.iter().enumerate().filter(|(_, placed)| !**placed) {
        sorted.push(order[at]);
        strokes.push(String::new());
    }
    *order = sorted;
    strokes
}
