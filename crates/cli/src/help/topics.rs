//! `tally help TOPIC`: one page of plain text each.

/// Name, one line about it, and the page.
pub struct Topic {
    /// As typed after `tally help`.
    pub name: &'static str,
    /// For the list of topics.
    pub about: &'static str,
    /// Ends with a line feed.
    pub page: &'static str,
}

pub const TOPICS: &[Topic] = &[
    Topic {
        name: "stacks",
        about: "how stacks are found, why they end early, what to do",
        page: include_str!("topics/stacks.txt"),
    },
    Topic {
        name: "off-cpu",
        about: "waiting time: what is measured, and what the words mean",
        page: include_str!("topics/off-cpu.txt"),
    },
    Topic {
        name: "containers",
        about: "profile in containers and from the host",
        page: include_str!("topics/containers.txt"),
    },
    Topic {
        name: "runtimes",
        about: "Python, Node, Java, .NET, Go: which frames get names",
        page: include_str!("topics/runtimes.txt"),
    },
    Topic {
        name: "symbols",
        about: "functions without names, separate debug information",
        page: include_str!("topics/symbols.txt"),
    },
];

/// The text for `name`; `topics` lists them all.
pub fn page(name: &str) -> Option<String> {
    if name == "topics" {
        let mut list = String::from("Pages of `tally help`:\n");
        for topic in TOPICS {
            list.push_str(&format!("  tally help {:<12}{}\n", topic.name, topic.about));
        }
        return Some(list);
    }
    TOPICS.iter().find(|topic| topic.name == name).map(|topic| topic.page.to_owned())
}
