//! Names of files by pattern.

/// Whether a name is one that a pattern means: `*` stands for any characters, `?` for one.
pub(super) fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), name.chars().collect());
    // After a star, the rest of the pattern is tried at every place in turn; only the last star
    // has to be gone back to.
    let (mut at, mut in_name) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while in_name < name.len() {
        match pattern.get(at) {
            Some('*') => {
                star = Some((at, in_name));
                at += 1;
            }
            Some(wanted) if *wanted == '?' || name.get(in_name) == Some(wanted) => {
                at += 1;
                in_name += 1;
            }
            _ => match &mut star {
                Some((after, from)) => {
                    *from += 1;
                    (at, in_name) = (*after + 1, *from);
                }
                None => return false,
            },
        }
    }
    pattern.iter().skip(at).all(|rest| *rest == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_means_names_by_stars_and_question_marks() {
        for (pattern, name, expected) in [
            ("*", "", true),
            ("*.csv", "a.csv", true),
            ("*.csv", "a.csv.gz", false),
            ("a?c*", "abc-1", true),
            ("a?c", "ac", false),
            ("*a*b", "xaxxbab", true),
            ("*a*b", "xaxxba", false),
            ("plain.csv", "plain.csv", true),
            ("plain.csv", "plainxcsv", false),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }
}
