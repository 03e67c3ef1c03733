//! The code blocks of a Markdown file.

/// A block and what its first line says about it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Block {
    /// `sh author`: commands of whoever writes the policy, in the project's folder.
    Author(Vec<Command>),
    /// `sh node`: commands of root on a node.
    Node(Vec<Command>),
    /// `LANGUAGE file=PATH`: a file.
    File(String, String),
}

/// A command and what the lines after it say about it.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Command {
    pub(crate) text: String,
    /// `# exit status N`; 0 unless said.
    pub(crate) exit: i32,
    /// `# prints TEXT`: on standard output or standard error.
    pub(crate) prints: Vec<String>,
}

/// The blocks below a heading of the second level.
pub(crate) fn section(markdown: &str, heading: &str) -> Vec<Block> {
    let start = format!("## {heading}\n");
    let (_, rest) = markdown.split_once(&start).unwrap_or_else(|| panic!("there is no section {heading:?}"));
    let text = rest.split("\n## ").next().unwrap_or_default();
    let mut blocks = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let Some(info) = line.strip_prefix("```") else { continue };
        let body: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
        let words: Vec<&str> = info.split(' ').collect();
        match words.as_slice() {
            ["sh", "author"] => blocks.push(Block::Author(commands(&body))),
            ["sh", "node"] => blocks.push(Block::Node(commands(&body))),
            [_, file] if file.starts_with("file=") => {
                blocks.push(Block::File(file["file=".len()..].to_owned(), body.join("\n") + "\n"));
            }
            _ => {}
        }
    }
    assert!(!blocks.is_empty(), "section {heading:?} has no block that could be run");
    blocks
}

fn commands(lines: &[&str]) -> Vec<Command> {
    let mut commands: Vec<Command> = Vec::new();
    let mut here = false;
    for line in lines {
        match (line.strip_prefix("# "), commands.last_mut()) {
            (_, Some(last)) if here => {
                last.text.push_str(line);
                last.text.push('\n');
                here = *line != "EOF";
            }
            (Some(said), Some(last)) => match said.split_once(' ') {
                Some(("prints", text)) => last.prints.push(text.to_owned()),
                Some(("exit", status)) => last.exit = status["status ".len()..].parse().expect("a status"),
                _ => panic!("{line:?} says nothing that is known"),
            },
            _ => {
                here = line.ends_with("<<'EOF'");
                commands.push(Command { text: format!("{line}\n"), ..Command::default() });
            }
        }
    }
    commands
}

#[test]
fn blocks_are_read() {
    let text = "# T\n## A\nx\n```sh author\none\n# exit status 1\n# prints a b\ncat >f <<'EOF'\n# not said\nEOF\ntwo\n```\n\
                ```json file=a/b.json\n{}\n```\n```json\n[]\n```\n## B\n```sh node\nthree\n```\n";
    let blocks = section(text, "A");
    let Block::Author(commands) = &blocks[0] else { panic!("{blocks:?}") };
    assert_eq!(commands.len(), 3);
    assert_eq!((commands[0].exit, commands[0].prints.as_slice()), (1, &["a b".to_owned()][..]));
    assert_eq!(commands[1].text, "cat >f <<'EOF'\n# not said\nEOF\n");
    assert_eq!(blocks[1..], [Block::File("a/b.json".into(), "{}\n".into())]);
}
