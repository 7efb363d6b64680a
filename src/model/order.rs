use std::cmp::Ordering;

/// Sorts a list; the sort is stable.
///
/// All lists share one sort of indices: [`slice::sort_by`] is compiled for each type, which adds ten kilobytes to the worker.
pub fn sort_by<T>(list: &mut Vec<T>, compare: impl Fn(&T, &T) -> Ordering) {
    let compare_at = |a: usize, b: usize| match (list.get(a), list.get(b)) {
        (Some(a), Some(b)) => compare(a, b),
        _ => Ordering::Equal,
    };
    let indices = sorted_indices(list.len(), &compare_at);
    let mut entries: Vec<Option<T>> = list.drain(..).map(Some).collect();
    list.extend(indices.into_iter().filter_map(|index| entries.get_mut(index)?.take()));
}

#[inline(never)]
fn sorted_indices(count: usize, compare: &dyn Fn(usize, usize) -> Ordering) -> Vec<usize> {
    let mut indices: Vec<usize> = (0..count).collect();
    indices.sort_by(|a, b| compare(*a, *b));
    indices
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sort_is_stable() {
        let mut list: Vec<(u32, String)> = (0..100).map(|n| (n * 7 % 10, n.to_string())).collect();
        let mut expected = list.clone();
        expected.sort_by_key(|(key, _)| *key);
        sort_by(&mut list, |a, b| a.0.cmp(&b.0));
        assert_eq!(list, expected);
        sort_by(&mut list, |a, b| b.1.cmp(&a.1));
        assert!(list.iter().is_sorted_by(|a, b| a.1 >= b.1));
        let mut empty: Vec<u8> = Vec::new();
        sort_by(&mut empty, Ord::cmp);
        assert!(empty.is_empty());
    }
}
