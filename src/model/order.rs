//! The order of lists.

use std::cmp::Ordering;

/// Sorts a list; equal entries keep their order.
///
/// All lists share one sort of their positions: the sort of the standard library is compiled for each type and order, which
/// adds ten kilobytes to the worker each time.
pub fn sort_by<T>(list: &mut Vec<T>, order: impl Fn(&T, &T) -> Ordering) {
    let of = |a: usize, b: usize| match (list.get(a), list.get(b)) {
        (Some(a), Some(b)) => order(a, b),
        _ => Ordering::Equal,
    };
    let positions = sorted_positions(list.len(), &of);
    let mut entries: Vec<Option<T>> = list.drain(..).map(Some).collect();
    list.extend(positions.into_iter().filter_map(|at| entries.get_mut(at)?.take()));
}

#[inline(never)]
fn sorted_positions(count: usize, order: &dyn Fn(usize, usize) -> Ordering) -> Vec<usize> {
    let mut positions: Vec<usize> = (0..count).collect();
    positions.sort_by(|a, b| order(*a, *b));
    positions
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_sorted_and_equal_entries_keep_their_order() {
        let mut list: Vec<(u32, String)> = (0..100).map(|n| (n * 7 % 10, n.to_string())).collect();
        let mut expected = list.clone();
        expected.sort_by_key(|(key, _)| *key);
        sort_by(&mut list, |a, b| a.0.cmp(&b.0));
        assert_eq!(list, expected);
        sort_by(&mut list, |a, b| b.1.cmp(&a.1));
        assert!(list.iter().is_sorted_by(|a, b| a.1 >= b.1));
        let mut none: Vec<u8> = Vec::new();
        sort_by(&mut none, Ord::cmp);
        assert!(none.is_empty());
    }
}
