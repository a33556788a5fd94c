//! Payloads of about 1 KB that the journal's dictionary was not trained on.
//!
//! Another trade, another shape, other sentences than the corpus of `xtask/src/samples.rs`: reports of a harbour, with the
//! share of text, structure, numbers and identifiers that tool results have. Seeded, so that every column and
//! every round append the same bytes.

use std::fmt::Write as _;

/// The length every payload is filled up to.
pub(crate) const PAYLOAD_BYTES: usize = 1_024;

/// One event's content.
pub(crate) struct Sample {
    pub(crate) payload: String,
    /// `(member, JSON value)`; together a meta of some 120 bytes.
    pub(crate) meta: Vec<(&'static str, String)>,
}

impl Sample {
    pub(crate) fn meta_json(&self) -> String {
        let members: Vec<String> =
            self.meta.iter().map(|(key, value)| format!("\"{key}\":{value}")).collect();
        format!("{{{}}}", members.join(","))
    }
}

/// `count` samples; the same for the same seed.
pub(crate) fn samples(seed: u64, count: usize) -> Vec<Sample> {
    let mut random = Random(seed);
    (0..count).map(|_| Sample { payload: payload(&mut random), meta: meta(&mut random) }).collect()
}

#[rustfmt::skip]
const WORDS: &[&str] = &[
    "anchor", "ballast", "barge", "beacon", "berth", "bollard", "breakwater", "bunker", "buoy", "chandler", "crane", "deck",
    "dredger", "ferry", "freight", "galley", "gantry", "grain", "hatch", "hawser", "hold", "hull", "inlet", "jetty", "keel",
    "ladder", "lantern", "lighter", "mast", "mooring", "mudflat", "oil", "pallet", "pier", "pilot", "pontoon", "propeller",
    "quay", "radar", "reef", "rigging", "rope", "rudder", "sandbank", "shoal", "slipway", "stern", "tanker", "timber",
    "trawler", "tug", "vessel", "warehouse", "wharf", "winch",
];

/// `*` stands for one of [`WORDS`], `#` for a number.
const SENTENCES: &str = include_str!("harbour.txt");

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    fn word(&mut self) -> &'static str {
        WORDS[self.below(WORDS.len())]
    }

    fn text(&mut self, alphabet: &[u8], length: usize) -> String {
        (0..length).map(|_| char::from(alphabet[self.below(alphabet.len())])).collect()
    }

    fn hex(&mut self, length: usize) -> String {
        self.text(b"0123456789abcdef", length)
    }
}

fn payload(random: &mut Random) -> String {
    let mut json = format!(
        r#"{{"vesselRef":"IMO{}","portCall":"{}","berth":{{"quay":"{}-{}","draughtCm":{},"occupied":{}}},"tides":["#,
        1_000_000 + random.below(8_999_999),
        random.hex(24),
        random.word(),
        random.below(60),
        300 + random.below(1_200),
        random.below(2) == 0,
    );
    for n in 0..3 {
        let comma = if n == 0 { "" } else { "," };
        let (hour, minute, level) = (random.below(24), random.below(60), random.below(700));
        // Writing to a string cannot fail.
        let _ = write!(
            json,
            r#"{comma}{{"highAt":"{hour:02}:{minute:02}","levelCm":{level},"station":"{}"}}"#,
            random.word()
        );
    }
    let _ = write!(
        json,
        r#"],"cargo":{{"teu":{},"hazmat":{},"sealNo":"{}"}},"remarks":""#,
        random.below(9_000),
        random.below(5) == 0,
        random.hex(10).to_uppercase(),
    );
    fill_with_text(&mut json, random);
    json.push_str("\"}");
    json
}

/// Sentences, until the payload has its length.
fn fill_with_text(json: &mut String, random: &mut Random) {
    let sentences: Vec<&str> = SENTENCES.lines().collect();
    while json.len() < PAYLOAD_BYTES - 2 {
        for c in sentences[random.below(sentences.len())].chars() {
            match c {
                '*' => json.push_str(random.word()),
                '#' => json.push_str(&(2 + random.below(98)).to_string()),
                c => json.push(c),
            }
        }
        json.push(' ');
    }
    json.truncate(PAYLOAD_BYTES - 2);
}

fn meta(random: &mut Random) -> Vec<(&'static str, String)> {
    const ULID: &[u8] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
    vec![
        ("actor", format!("\"user:{}\"", random.word())),
        ("run", format!("\"01K{}\"", random.text(ULID, 23))),
        ("iteration", (1 + random.below(30)).to_string()),
        ("trace", format!("\"00-{}-{}-01\"", random.hex(32), random.hex(16))),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_is_one_kilobyte_of_json() {
        for sample in samples(7, 200) {
            assert_eq!(sample.payload.len(), PAYLOAD_BYTES);
            let payload: serde_json::Value = serde_json::from_str(&sample.payload).unwrap();
            assert!(payload["remarks"].as_str().unwrap().len() > 400);
            let meta: serde_json::Value = serde_json::from_str(&sample.meta_json()).unwrap();
            assert_eq!(meta.as_object().unwrap().len(), 4);
            assert!((110..170).contains(&sample.meta_json().len()), "{}", sample.meta_json());
        }
    }
}
