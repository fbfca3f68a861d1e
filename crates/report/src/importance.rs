//! Which findings are shown where only few are.

use manycore_analysis::{Finding, FindingKind};

/// Returns the most important findings, at most `limit`, in their order: answers, then the warnings that may make them
/// doubtful, then advice, facts and doubtful facts. Many warnings leave room for advice: half of what answers leave.
pub fn most_important(findings: &[Finding], limit: usize) -> Vec<&Finding> {
    if findings.len() <= limit {
        return findings.iter().collect();
    }
    let count = |kind| findings.iter().filter(|finding| finding.kind == kind).count();
    let after_answers = limit.saturating_sub(count(FindingKind::Answer));
    let for_advice = count(FindingKind::Advice).min(after_answers / 2);
    let mut warnings_left = after_answers - for_advice;
    let is_kept = |finding: &&Finding| {
        if finding.kind != FindingKind::Warning {
            return true;
        }
        let is_kept = warnings_left > 0;
        warnings_left = warnings_left.saturating_sub(1);
        is_kept
    };
    findings.iter().filter(is_kept).take(limit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use FindingKind::{Advice, Answer, Doubtful, Fact, Warning};

    fn kept(kinds: &[FindingKind], limit: usize) -> Vec<FindingKind> {
        let finding = |&kind: &FindingKind| Finding {
            kind,
            topic: "scaling",
            text: String::new(),
            evidence: Vec::new(),
        };
        let findings: Vec<Finding> = kinds.iter().map(finding).collect();
        most_important(&findings, limit).iter().map(|finding| finding.kind).collect()
    }

    #[test]
    fn warnings_leave_room_for_advice() {
        let many = [Answer, Warning, Warning, Warning, Warning, Advice, Advice, Advice, Fact, Doubtful];
        assert_eq!(kept(&many, 5), [Answer, Warning, Warning, Advice, Advice]);
        assert_eq!(kept(&many, usize::MAX), many);
        assert_eq!(kept(&[Warning, Warning, Warning, Warning, Warning, Warning, Fact], 5), [Warning; 5]);
        assert_eq!(
            kept(&[Warning, Warning, Warning, Advice, Fact, Fact], 5),
            [Warning, Warning, Warning, Advice, Fact]
        );
        assert_eq!(kept(&[Answer; 7], 5), [Answer; 5]);
        assert!(kept(&[], 5).is_empty());
    }
}
