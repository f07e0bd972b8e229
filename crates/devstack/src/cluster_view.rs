//! What each node of a Cluster believes about all of them, and whether they believe the same.

use std::collections::{BTreeMap, BTreeSet};

/// The number of slots of every Redis Cluster.
pub(crate) const SLOTS: u16 = 16_384;

/// First and last.
type SlotRange = (u16, u16);

/// A node's primary, if it is a replica, and its slots.
type Role<'a> = (Option<&'a str>, &'a [SlotRange]);

/// One line of `CLUSTER NODES`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NodeLine {
    pub(crate) id: String,
    pub(crate) myself: bool,
    /// Down, or suspected to be, or not yet known well, in the eyes of the node that was asked.
    pub(crate) doubtful: bool,
    pub(crate) connected: bool,
    /// The primary's id, if it is a replica.
    pub(crate) primary: Option<String>,
    /// The configuration epoch: of two claims to a slot, the one with the greater epoch wins.
    pub(crate) epoch: u64,
    /// Ascending.
    slots: Vec<SlotRange>,
}

impl NodeLine {
    /// `<id> <address> <flags> <primary or -> <ping> <pong> <epoch> <link> <slots>...`
    fn parse(line: &str) -> Option<Self> {
        let fields: Vec<&str> = line.split(' ').collect();
        let [id, _, flags, primary, _, _, epoch, link, slots @ ..] = fields.as_slice() else { return None };
        let flags: Vec<&str> = flags.split(',').collect();
        let doubts = ["fail", "fail?", "handshake", "noaddr"];
        let range = |text: &str| {
            let (first, last) = text.split_once('-').unwrap_or((text, text));
            Some((first.parse().ok()?, last.parse().ok()?))
        };
        // In brackets: slots on the move, which only their two nodes list.
        let settled = slots.iter().filter(|slots| !slots.starts_with('['));
        Some(Self {
            id: (*id).to_owned(),
            myself: flags.contains(&"myself"),
            doubtful: doubts.iter().any(|doubt| flags.contains(doubt)),
            connected: *link == "connected",
            primary: flags.contains(&"slave").then(|| (*primary).to_owned()),
            epoch: epoch.parse().ok()?,
            slots: settled.map(|slots| range(slots)).collect::<Option<_>>()?,
        })
    }

    pub(crate) fn owns(&self, slot: u16) -> bool {
        self.primary.is_none() && self.slots.iter().any(|(first, last)| (*first..=*last).contains(&slot))
    }

    fn slot_count(&self) -> u32 {
        self.slots.iter().map(|(first, last)| u32::from(last.saturating_sub(*first)) + 1).sum()
    }
}

/// One node's answer to `CLUSTER NODES`.
#[derive(Debug)]
pub(crate) struct View(pub(crate) Vec<NodeLine>);

impl View {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let line = |line: &str| NodeLine::parse(line).ok_or_else(|| format!("CLUSTER NODES: {line:?}"));
        text.lines().filter(|line| !line.is_empty()).map(line).collect::<Result<_, _>>().map(Self)
    }

    pub(crate) fn myself(&self) -> Option<&NodeLine> {
        self.0.iter().find(|line| line.myself)
    }
}

/// Whether the views of all nodes that are up describe one and the same Cluster, in which these nodes are well, own
/// every slot and follow nobody else.
///
/// # Errors
///
/// What is wrong, in words.
pub(crate) fn agreement(views: &BTreeMap<&str, View>) -> Result<(), String> {
    let up: BTreeSet<&str> = views.keys().copied().collect();
    let mut agreed: Option<BTreeMap<&str, Role<'_>>> = None;
    for (viewer, View(lines)) in views {
        let mut roles = BTreeMap::new();
        let mut slots = 0;
        for line in lines {
            if !up.contains(line.id.as_str()) {
                if !line.slots.is_empty() {
                    return Err(format!("in the view of {viewer}, {} owns slots and is down", line.id));
                }
                continue;
            }
            if line.doubtful || !(line.connected || line.myself) {
                return Err(format!("{viewer} doubts that {} is well", line.id));
            }
            if let Some(primary) = line.primary.as_deref().filter(|primary| !up.contains(primary)) {
                return Err(format!("in the view of {viewer}, {} follows {primary}, which is down", line.id));
            }
            slots += line.slot_count();
            roles.insert(line.id.as_str(), (line.primary.as_deref(), line.slots.as_slice()));
        }
        if let Some(unknown) = up.iter().find(|id| !roles.contains_key(**id)) {
            return Err(format!("{viewer} does not know {unknown}"));
        }
        if slots != u32::from(SLOTS) {
            return Err(format!("in the view of {viewer}, {slots} slots have an owner that is up"));
        }
        match &agreed {
            Some(agreed) if *agreed != roles => {
                return Err(format!("{viewer} sees other roles or owners than the nodes before it"));
            }
            _ => agreed = Some(roles),
        }
    }
    agreed.map(drop).ok_or_else(|| "no node is up".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "a 127.0.0.1:1@11,, myself,master - 0 0 1 connected 0-8000 8002 [8002->-b]";
    const B: &str = "b 127.0.0.1:2@12 master - 0 0 2 connected 8001 8003-16383";
    const R: &str = "r 127.0.0.1:3@13 slave a 0 0 1 connected";

    fn views(of: &[(&'static str, String)]) -> BTreeMap<&'static str, View> {
        of.iter().map(|(id, text)| (*id, View::parse(text).unwrap())).collect()
    }

    /// The same lines as another node would print them.
    fn seen_from(myself: &str, lines: &[&str]) -> String {
        let lines = lines.iter().map(|line| {
            let line = line.replace("myself,", "");
            let mut parts: Vec<String> = line.split(' ').map(str::to_owned).collect();
            if parts[0] == myself {
                parts[2] = format!("myself,{}", parts[2]);
            }
            parts.join(" ")
        });
        lines.collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn lines_are_read_with_their_roles_and_slots() {
        let View(lines) = View::parse(&format!("{A}\n{B}\n{R}\n")).unwrap();
        assert_eq!(lines[0].slots, [(0, 8000), (8002, 8002)]);
        assert!(lines[0].myself && lines[0].owns(8002) && !lines[0].owns(8001));
        assert_eq!((lines[1].epoch, lines[1].slot_count()), (2, 8382));
        assert_eq!(lines[2].primary.as_deref(), Some("a"));
        for broken in ["a b", "a b master - 0 0 x connected", "a b master - 0 0 1 connected 5-x"] {
            assert!(View::parse(broken).is_err(), "{broken}");
        }
    }

    #[test]
    fn equal_views_of_healthy_nodes_agree() {
        let of = ["a", "b", "r"].map(|id| (id, seen_from(id, &[A, B, R])));
        assert_eq!(agreement(&views(&of)), Ok(()));
    }

    #[test]
    fn what_is_out_of_order_is_named() {
        let bad = |of: &[(&'static str, String)]| agreement(&views(of)).unwrap_err();
        let a = || ("a", seen_from("a", &[A, B, R]));
        let b = |line: &str| ("b", seen_from("b", &[A, line, R]));
        let r = |line: &str| ("r", seen_from("r", &[A, B, line]));
        assert_eq!(bad(&[]), "no node is up");
        // The primary was killed a moment ago, and nobody has noticed.
        assert!(bad(&[b(B), r(R)]).contains("a owns slots and is down"));
        assert!(bad(&[a(), b(B), r(&R.replace("slave", "slave,fail?"))]).contains("doubts that r"));
        assert!(bad(&[a(), b(&B.replace("16383", "16382")), r(R)]).contains("16383 slots"));
        assert!(bad(&[a(), b(B), r(&R.replace("slave a", "slave b"))]).contains("other roles"));
        assert!(bad(&[a(), b(B), ("r", seen_from("r", &[A, R]))]).contains("r does not know b"));
    }
}
