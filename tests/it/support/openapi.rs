//! What docs/openapi.yaml documents.

use std::collections::BTreeSet;

/// The names of the properties of the first object after `heading`.
pub fn documented_properties(heading: &str) -> BTreeSet<String> {
    let api = include_str!("../../../docs/openapi.yaml");
    let (_, after) = api.split_once(heading).unwrap();
    let indentation = |line: &str| line.len() - line.trim_start().len();
    let mut lines = after.lines().skip_while(|line| line.trim() != "properties:");
    let outer = indentation(lines.next().unwrap());
    let properties = lines.take_while(|line| indentation(line) > outer).filter(|line| indentation(line) == outer + 2);
    properties.map(|line| line.trim().split_once(':').unwrap().0.to_owned()).collect()
}
