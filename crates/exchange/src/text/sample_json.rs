//! Parts of one sample as JSON.

use profile::Profile;
use profile::table::{FrameId, StringId};
use serde_json::{Value, json};

/// The labels of a goroutine: a key of [`Profile::label_sets`].
#[must_use]
pub fn labels_json(profile: &Profile, set: StringId) -> Value {
    let text = |id| profile.strings.of(id).to_owned();
    let labels = profile.label_sets.get(&set).into_iter().flatten();
    Value::Object(labels.map(|(key, value)| (text(*key), json!(text(*value)))).collect())
}

/// The source-level frames of a frame, innermost first.
#[must_use]
pub fn frame_json(profile: &Profile, frame: FrameId) -> Vec<Value> {
    let at = profile.frames.of(frame);
    let dso = &profile.dsos.of(at.dso).path;
    let address = format!("{:#x}", at.addr);
    let names = profile.frame_names(frame);
    if names.is_empty() {
        return vec![json!({"addr": address, "dso": dso})];
    }
    let one = |name: &profile::table::InlineFrame| {
        let symbol = profile.symbols.of(name.symbol);
        let mut o = json!({"addr": address, "dso": dso, "sym": profile.strings.of(symbol.name),
            "offset": at.addr.wrapping_sub(symbol.start)});
        if symbol.inlined {
            o["inlined"] = json!(true);
        }
        if let Some(file) = name.file {
            o["file"] = json!(profile.strings.of(file));
            o["line"] = json!(name.line);
        }
        o
    };
    names.iter().map(one).collect()
}
