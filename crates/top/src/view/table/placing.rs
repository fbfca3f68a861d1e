//! Which columns of a table fit on the screen, and where they are.

use super::Column;

/// A column on the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct ColumnPlace {
    pub column: usize,
    pub x: u16,
    pub width: u16,
}

/// Chooses the columns that fit, and their widths.
pub(in super::super) fn place_columns(columns: &[Column], width: u16) -> Vec<ColumnPlace> {
    let mut shown: Vec<usize> = (0..columns.len()).collect();
    let needed = |shown: &[usize]| -> u32 {
        shown.iter().map(|&at| u32::from(columns[at].width) + 1).sum::<u32>().saturating_sub(1)
    };
    while needed(&shown) > u32::from(width) {
        let Some(worst) = shown.iter().rposition(|&at| {
            let most = shown.iter().map(|&at| columns[at].drop).max().unwrap_or(0);
            columns[at].drop == most && most > 0
        }) else {
            break;
        };
        shown.remove(worst);
    }
    let mut lacking = needed(&shown).saturating_sub(u32::from(width)) as u16;
    let mut left = u32::from(width).saturating_sub(needed(&shown)) as u16;
    let mut x = 0;
    let mut places = Vec::with_capacity(shown.len());
    for column in shown {
        let more = columns[column].more.min(left);
        left -= more;
        let least =
            if columns[column].is_left { 4.min(columns[column].width) } else { columns[column].width };
        let less = lacking.min(columns[column].width - least);
        lacking -= less;
        let wide = columns[column].width + more - less;
        places.push(ColumnPlace { column, x, width: wide });
        x += wide + 1;
    }
    // A part of a figure would be another figure.
    places.retain(|place| place.x == 0 || columns[place.column].is_left || place.x + place.width <= width);
    places
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Regression: on the narrowest screens, the last figure was cut and looked like another one.
        #[test]
        fn no_figure_is_cut(all in prop::collection::vec((1..20_u16, any::<bool>(), 0..9_u8), 1..12), width in 1..80_u16) {
            let columns: Vec<Column> = all
                .iter()
                .map(|&(width, is_left, drop)| {
                    if is_left { Column::text("t", width, 3, drop) } else { Column::figure("f", width, drop) }
                })
                .collect();
            let places = place_columns(&columns, width);
            prop_assert!(places.first().is_none_or(|first| first.x == 0));
            for pair in places.windows(2) {
                prop_assert!(pair[0].column < pair[1].column && pair[0].x + pair[0].width < pair[1].x);
            }
            for place in &places {
                let is_whole = place.x + place.width <= width && place.width >= columns[place.column].width;
                prop_assert!(is_whole || columns[place.column].is_left || place.x == 0);
            }
        }
    }
}
