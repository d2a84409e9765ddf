//! Keys.

use super::blame::blame_lines;
use super::rows::{Pick, function_name};
use super::{Explorer, ExplorerStep, Tab};
use crate::help;
use crate::sandwich::{Sandwich, SandwichStep};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use profile::view::ranking::RankRows as _;
use profile::view::selected::{StackOrder, proof};

impl Explorer {
    /// Takes a key.
    pub fn key(&mut self, key: KeyEvent) -> ExplorerStep {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return if key.code == KeyCode::Char('c') { ExplorerStep::Quit } else { ExplorerStep::Stay };
        }
        if self.typed.is_some() {
            self.type_key(key.code);
        } else if self.page_of_text.is_some() {
            self.text_key(key.code);
        } else {
            return self.plain_key(key);
        }
        ExplorerStep::Stay
    }

    fn plain_key(&mut self, key: KeyEvent) -> ExplorerStep {
        match key.code {
            KeyCode::Char('q') => return ExplorerStep::Quit,
            KeyCode::Char('6' | 'e') => return ExplorerStep::Events,
            KeyCode::Char('a') => {
                return self.function().map_or(ExplorerStep::Stay, ExplorerStep::Annotate);
            }
            KeyCode::Esc => return self.back(),
            KeyCode::Char(digit @ '1'..='5') => self.show(Tab::ALL[digit as usize - '1' as usize]),
            KeyCode::Tab => self.turn_tab(1),
            KeyCode::BackTab => self.turn_tab(Tab::ALL.len() - 1),
            KeyCode::Char('?') | KeyCode::F(1) => {
                self.page_of_text = Some((help::explorer_lines(), 0));
            }
            KeyCode::Char('/') => self.typed = Some(String::new()),
            KeyCode::Char('s') => self.show_sandwich(),
            KeyCode::Char('S') => self.turn_state(),
            KeyCode::Char('i') => self.select(|selection| selection.with_idle = !selection.with_idle),
            KeyCode::Char('w') => self.show_evidence(),
            KeyCode::Char('b') => self.show_blame(),
            _ => self.view_key(key),
        }
        ExplorerStep::Stay
    }

    fn turn_tab(&mut self, by: usize) {
        let at = (self.tab as usize + by) % Tab::ALL.len();
        self.show(Tab::ALL[at]);
    }

    fn view_key(&mut self, key: KeyEvent) {
        if let Some((tree, sandwich)) = &mut self.sandwich {
            if let SandwichStep::Go(name) = sandwich.key(key, tree) {
                sandwich.go(tree, &name);
            }
            return;
        }
        match (self.tab, key.code) {
            (Tab::Flame, KeyCode::Char('o')) => self.turn_order(self.order.next()),
            (Tab::Functions, KeyCode::Char('o')) => {
                self.by_total = !self.by_total;
                self.rows = None;
            }
            (Tab::Flame, KeyCode::Char('F')) => {
                self.folds = !self.folds;
                self.flame = None;
            }
            (Tab::Flame, _) => {
                self.make_flame();
                let (tree, view) = self.flame.as_mut().expect("invariant: made above");
                view.key(key, tree);
            }
            (Tab::Timeline, KeyCode::Left | KeyCode::Char('h')) => {
                self.column = self.column.saturating_sub(1)
            }
            (Tab::Timeline, KeyCode::Right | KeyCode::Char('l')) => self.column += 1,
            (Tab::Timeline, KeyCode::Char('v')) => {
                self.mark = if self.mark.is_some() { None } else { Some(self.column) };
            }
            (Tab::Timeline, KeyCode::Enter) if self.mark.is_some() => self.select_span(),
            (_, KeyCode::Enter | KeyCode::Char(' ')) => self.pick(),
            (_, code) => self.move_key(code),
        }
    }

    fn turn_order(&mut self, order: StackOrder) {
        (self.order, self.flame) = (order, None);
    }

    fn move_key(&mut self, code: KeyCode) {
        let rows = self.rows.as_ref().map_or(&[][..], |(_, rows)| rows.as_slice());
        let targets: Vec<usize> = (0..rows.len()).filter(|&at| rows[at].pick.is_some()).collect();
        let place = &mut self.places[self.tab as usize];
        let now = targets.iter().position(|&at| at >= place.0).unwrap_or(0);
        let last = targets.len().saturating_sub(1);
        let page = self.height.max(2) - 1;
        let next = match code {
            KeyCode::Down | KeyCode::Char('j') => (now + 1).min(last),
            KeyCode::Up | KeyCode::Char('k') => now.saturating_sub(1),
            KeyCode::PageDown => (now + page).min(last),
            KeyCode::PageUp => now.saturating_sub(page),
            KeyCode::Home | KeyCode::Char('g') => 0,
            KeyCode::End | KeyCode::Char('G') => last,
            _ => return,
        };
        if let Some(&at) = targets.get(next) {
            place.0 = at;
        }
    }

    /// Subject of the line under the cursor.
    pub(super) fn picked(&self) -> Option<Pick> {
        let (_, rows) = self.rows.as_ref()?;
        rows.get(self.places[self.tab as usize].0)?.pick.clone()
    }

    pub(super) fn pick(&mut self) {
        match self.picked() {
            Some(Pick::Finding(at)) => {
                let found = proof(&self.page, &self.text.findings[at].name);
                self.select(|selection| *selection = found);
            }
            Some(Pick::Thread(at)) => self.select(|selection| {
                selection.threads = if selection.threads == [at] { Vec::new() } else { vec![at] };
            }),
            Some(Pick::Wait { state, function }) => self.select(|selection| {
                (selection.states, selection.focus) = (vec![state], function);
            }),
            Some(Pick::Function(name)) => self.select(|selection| selection.focus = name),
            None => {}
        }
    }

    /// Shows one state after the other, and in the end all again.
    fn turn_state(&mut self) {
        let sums = self.selected().states;
        let mut order: Vec<usize> = (0..sums.len()).filter(|&at| sums[at] > 0).collect();
        order.rank_by_key(|&at| std::cmp::Reverse(sums[at]));
        let names: Vec<&String> = order.iter().map(|&at| &self.page.states[at]).collect();
        let now = names.iter().position(|name| [(*name).clone()] == *self.selection.states);
        let next = names.get(now.map_or(0, |at| at + 1)).map(|name| vec![(*name).clone()]);
        self.select(|selection| selection.states = next.unwrap_or_default());
    }

    pub(super) fn select_span(&mut self) {
        let Some(mark) = self.mark.take() else { return };
        let Some(strips) = &self.strips else { return };
        let (from, to) = (mark.min(self.column), mark.max(self.column) + 1);
        let tick = |column: usize| {
            (strips.span_ns.0 + strips.column_ns.saturating_mul(column as u64)) / self.page.tick_ns
        };
        let span = (tick(from), tick(to));
        self.column = 0;
        self.select(|selection| selection.span = Some(span));
    }

    /// The function under the cursor.
    fn function(&self) -> Option<String> {
        if let Some((_, sandwich)) = &self.sandwich {
            return Some(sandwich.picked().to_owned());
        }
        if self.tab == Tab::Flame {
            let (tree, view) = self.flame.as_ref()?;
            return view.function(tree).map(str::to_owned);
        }
        self.picked().and_then(function_name)
    }

    fn show_sandwich(&mut self) {
        let Some(name) = self.function() else { return };
        let tree = self.selected().tree(StackOrder::Caller, false);
        self.sandwich = Sandwich::new(&tree, &name).map(|sandwich| (tree, sandwich));
    }

    /// The evidence of the finding under the cursor, else of all.
    fn show_evidence(&mut self) {
        let shown = match self.picked() {
            Some(Pick::Finding(at)) => &self.text.findings[at..=at],
            _ => self.text.findings.as_slice(),
        };
        let evidence: Vec<&str> = shown.iter().map(|finding| finding.evidence.as_str()).collect();
        let text = evidence.join("\n");
        self.page_of_text = Some((text.lines().map(str::to_owned).collect(), 0));
    }

    /// Where the time of the selected thread, or of the main one, went through its waits.
    fn show_blame(&mut self) {
        let selected = self.selection.threads.first().and_then(|&at| self.page.threads.get(at as usize));
        self.page_of_text = Some((blame_lines(self.profile(), selected.map(|thread| thread.tid)), 0));
    }

    /// One sentence over the view until the next key.
    pub fn show_message(&mut self, text: &str) {
        self.page_of_text = Some((display::fit::wrap(&perfdata::text::harmless(text), 76), 0));
    }

    fn text_key(&mut self, code: KeyCode) {
        let Some((lines, top)) = &mut self.page_of_text else { return };
        match code {
            KeyCode::Down | KeyCode::Char('j') => *top = (*top + 1).min(lines.len().saturating_sub(1)),
            KeyCode::Up | KeyCode::Char('k') => *top = top.saturating_sub(1),
            _ => self.page_of_text = None,
        }
    }

    fn type_key(&mut self, code: KeyCode) {
        let Some(typed) = &mut self.typed else { return };
        match code {
            KeyCode::Char(c) => typed.push(c),
            KeyCode::Backspace => drop(typed.pop()),
            KeyCode::Esc => (self.typed, self.find) = (None, String::new()),
            KeyCode::Enter => self.typed = None,
            _ => return,
        }
        if let Some(typed) = &self.typed {
            self.find = typed.to_lowercase();
        }
        self.rows = None;
        if let Some((_, view)) = &mut self.flame {
            view.find(&self.find);
        }
    }

    /// One step back; from the first view, out of the program.
    fn back(&mut self) -> ExplorerStep {
        if let Some((tree, sandwich)) = &mut self.sandwich {
            if !sandwich.back(tree) {
                self.sandwich = None;
            }
        } else if self.mark.take().is_some() {
        } else if let (Tab::Flame, Some((tree, view))) = (self.tab, &mut self.flame)
            && view.is_zoomed()
        {
            view.leave_zoom(tree);
        } else if !self.find.is_empty() {
            self.find.clear();
            self.forget();
        } else if let Some((selection, tab)) = self.history.pop() {
            self.selection = selection;
            self.forget();
            self.show(tab);
        } else if self.tab != Tab::Overview {
            self.show(Tab::Overview);
        } else {
            return ExplorerStep::Quit;
        }
        ExplorerStep::Stay
    }
}
