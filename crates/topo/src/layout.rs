//! Layout of nested boxes: sizes first, then positions. Independent of machines.
//!
//! A [`Block`] is a finished picture whose corner is at 0,0. Blocks are put side by side and below each
//! other, and the result is a block again.

/// Space between neighbouring blocks and inside a frame.
pub const GAP: f64 = 6.0;
/// Height of a line of text.
pub const LINE_HEIGHT: f64 = 18.0;

/// Distance from the middle of a letter to the base line.
const TO_BASE_LINE: f64 = 4.5;

/// A rectangle or a text. Units are CSS pixels at a scale of 1.
#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    /// A box.
    Box {
        /// Left edge.
        x: f64,
        /// Upper edge.
        y: f64,
        /// Width.
        w: f64,
        /// Height.
        h: f64,
        /// CSS classes.
        class: String,
        /// The tooltip.
        hint: String,
    },
    /// A line of text.
    Text {
        /// Left edge, or the middle of centred text.
        x: f64,
        /// Base line.
        y: f64,
        /// CSS classes.
        class: String,
        /// The text.
        text: String,
    },
}

/// A picture of known size.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Block {
    /// Width.
    pub w: f64,
    /// Height.
    pub h: f64,
    /// The shapes in it.
    pub shapes: Vec<Shape>,
    /// Whether it is one box that may grow to fill its cell in a grid.
    pub grows: bool,
}

/// Estimates the width of a text in a common sans-serif font at its class's size; rather too wide than too
/// narrow.
pub fn text_width(text: &str, class: &str) -> f64 {
    let letter = match class {
        "head" => 12.5,
        "title" => 8.6,
        _ => 7.6,
    };
    text.chars().count() as f64 * letter
}

impl Block {
    /// Returns a line of text.
    pub fn text(text: &str, class: &str) -> Self {
        let shape =
            Shape::Text { x: 0.0, y: LINE_HEIGHT - 5.0, class: class.to_owned(), text: text.to_owned() };
        Self { w: text_width(text, class), h: LINE_HEIGHT, shapes: vec![shape], grows: false }
    }

    /// Returns a box with a text in its middle, at least `least` wide.
    pub fn tile(text: &str, class: &str, least: f64, hint: &str) -> Self {
        let (w, h) = ((text_width(text, class) + 2.0 * GAP).max(least), LINE_HEIGHT + 4.0);
        let frame = Shape::Box { x: 0.0, y: 0.0, w, h, class: class.to_owned(), hint: hint.to_owned() };
        let label = Shape::Text {
            x: w / 2.0,
            y: h / 2.0 + TO_BASE_LINE,
            class: format!("middle {class}"),
            text: text.to_owned(),
        };
        Self { w, h, shapes: vec![frame, label], grows: true }
    }

    /// Returns a tile as high as two lines, with the second line where it is not empty.
    pub fn tile_of_two(text: &str, below: &str, class: &str, least: f64, hint: &str) -> Self {
        let mut tile = Self::tile(text, class, least, hint).stretched(0.0, 2.0 * LINE_HEIGHT + 2.0);
        if below.is_empty() {
            return tile;
        }
        let half = (LINE_HEIGHT - 2.0) / 2.0;
        let Some(Shape::Text { x, y, class, .. }) = tile.shapes.last_mut() else { return tile };
        *y -= half;
        let (x, y, class) = (*x, *y + 2.0 * half, format!("{class} below"));
        tile.shapes.push(Shape::Text { x, y, class, text: below.to_owned() });
        tile
    }

    /// Draws a frame around the block.
    pub fn framed(self, class: &str, hint: &str) -> Self {
        let (w, h) = (self.w + 2.0 * GAP, self.h + 2.0 * GAP);
        let frame = Shape::Box { x: 0.0, y: 0.0, w, h, class: class.to_owned(), hint: hint.to_owned() };
        let mut shapes = vec![frame];
        shapes.extend(self.shapes.into_iter().map(|shape| shape.moved(GAP, GAP)));
        Self { w, h, shapes, grows: true }
    }

    /// Stretches the block to at least this size, if it is a frame or a tile. The texts of a tile stay in
    /// the middle.
    pub fn stretched(mut self, w: f64, h: f64) -> Self {
        if !self.grows {
            return self;
        }
        let (w, h) = (w.max(self.w), h.max(self.h));
        let (right, down) = ((w - self.w) / 2.0, (h - self.h) / 2.0);
        let Some((Shape::Box { w: width, h: height, .. }, inner)) = self.shapes.split_first_mut() else {
            return self;
        };
        (*width, *height) = (w, h);
        let is_label =
            |shape: &Shape| matches!(shape, Shape::Text { class, .. } if class.starts_with("middle"));
        if inner.iter().all(is_label) {
            for shape in inner {
                shape.shift(right, down);
            }
        }
        Self { w, h, ..self }
    }
}

impl Shape {
    fn moved(mut self, dx: f64, dy: f64) -> Self {
        self.shift(dx, dy);
        self
    }

    fn shift(&mut self, dx: f64, dy: f64) {
        let (Self::Box { x, y, .. } | Self::Text { x, y, .. }) = self;
        *x += dx;
        *y += dy;
    }
}

/// Places blocks below each other.
pub fn stack(blocks: Vec<Block>, gap: f64) -> Block {
    grid(blocks, 1, gap)
}

/// Places blocks in rows of `columns`. Each column is as wide as its widest block, and frames fill their
/// cells.
pub fn grid(blocks: Vec<Block>, columns: usize, gap: f64) -> Block {
    let columns = columns.max(1);
    let mut widths = vec![0.0_f64; columns.min(blocks.len())];
    for (at, block) in blocks.iter().enumerate() {
        widths[at % columns] = widths[at % columns].max(block.w);
    }
    let mut out = Block {
        w: widths.iter().sum::<f64>() + gap * widths.len().saturating_sub(1) as f64,
        ..Block::default()
    };
    let mut blocks = blocks.into_iter().peekable();
    while blocks.peek().is_some() {
        let row: Vec<Block> = blocks.by_ref().take(columns).collect();
        let top = if out.h > 0.0 { out.h + gap } else { 0.0 };
        let mut left = 0.0;
        out.h = top + row.iter().map(|block| block.h).fold(0.0, f64::max);
        for (block, width) in row.into_iter().zip(&widths) {
            let block = block.stretched(*width, out.h - top);
            out.shapes.extend(block.shapes.into_iter().map(|shape| shape.moved(left, top)));
            left += width + gap;
        }
    }
    out
}

/// Places blocks in the number of columns that brings the whole nearest to `aspect` (width by height).
pub fn balanced(blocks: Vec<Block>, aspect: f64, gap: f64) -> Block {
    let columns = best_columns(&blocks, aspect, gap);
    grid(blocks, columns, gap)
}

/// Returns the number of columns that comes nearest to `aspect`. An incomplete last row counts against it.
pub fn best_columns(blocks: &[Block], aspect: f64, gap: f64) -> usize {
    let w = blocks.iter().map(|block| block.w).fold(0.0, f64::max) + gap;
    let h = blocks.iter().map(|block| block.h).fold(0.0, f64::max) + gap;
    let cost = |columns: usize| {
        let rows = blocks.len().div_ceil(columns);
        let empty = (rows * columns - blocks.len()) as f64 / blocks.len() as f64;
        4.0 * empty + ((columns as f64 * w) / (rows as f64 * h) / aspect).ln().abs()
    };
    (1..=blocks.len()).rev().min_by(|a, b| cost(*a).total_cmp(&cost(*b))).unwrap_or(1)
}

/// Places blocks side by side, wrapped at `width`.
pub fn flow(blocks: Vec<Block>, width: f64, gap: f64) -> Block {
    let mut rows: Vec<Vec<Block>> = Vec::new();
    let mut used = f64::INFINITY;
    for block in blocks {
        if used + gap + block.w > width {
            rows.push(Vec::new());
            used = -gap;
        }
        used += gap + block.w;
        if let Some(row) = rows.last_mut() {
            row.push(block);
        }
    }
    stack(
        rows.into_iter()
            .map(|row| {
                let columns = row.len();
                grid(row, columns, gap)
            })
            .collect(),
        gap,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn corners(block: &Block) -> Vec<[f64; 4]> {
        block
            .shapes
            .iter()
            .filter_map(|shape| match shape {
                Shape::Box { x, y, w, h, .. } => Some([*x, *y, x + w, y + h]),
                Shape::Text { .. } => None,
            })
            .collect()
    }

    fn tiles(count: usize) -> Vec<Block> {
        (0..count).map(|at| Block::tile(&"x".repeat(at % 7), "", 20.0, "")).collect()
    }

    fn apart(block: &Block) {
        let boxes = corners(block);
        for (at, a) in boxes.iter().enumerate() {
            assert!(a[0] >= 0.0 && a[1] >= 0.0 && a[2] <= block.w + 0.01 && a[3] <= block.h + 0.01);
            for b in &boxes[at + 1..] {
                assert!(a[2] <= b[0] || b[2] <= a[0] || a[3] <= b[1] || b[3] <= a[1], "{a:?} {b:?}");
            }
        }
    }

    proptest! {
        #[test]
        fn neighbours_never_overlap(count in 0usize..60, columns in 1usize..12, width in 0.0..900.0) {
            apart(&grid(tiles(count), columns, GAP));
            apart(&flow(tiles(count), width, GAP));
            apart(&balanced(tiles(count), 1.6, GAP));
        }
    }

    #[test]
    fn full_rows_are_preferred() {
        let equal = vec![Block { w: 30.0, h: 20.0, ..Block::default() }; 16];
        assert_eq!(best_columns(&equal, 1.6, 0.0), 4);
        assert!((balanced(equal, 1.6, 0.0).h - 80.0).abs() < 0.01);
    }

    #[test]
    fn a_frame_grows_with_its_block() {
        let block = Block::text("x", "").framed("f", "");
        let block = block.stretched(100.0, 90.0);
        assert_eq!(corners(&block), [[0.0, 0.0, 100.0, 90.0]]);
    }
}
