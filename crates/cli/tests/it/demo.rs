//! `weir demo`.

use crate::weir::Weir;

#[test]
fn the_tour_loses_nothing_and_finds_the_damage() {
    let weir = Weir::new();
    let seen = weir.json(&["demo"]);
    assert_eq!((&seen["lost"], &seen["sound_after_kill"]), (&0.into(), &true.into()));
    let (acknowledged, stored) = (seen["acknowledged"].as_u64().unwrap(), seen["stored"].as_u64().unwrap());
    assert!(acknowledged > 0 && stored >= acknowledged, "{seen}");
    let problem = &seen["problems"][0];
    assert_eq!(
        (&problem["stream"], &problem["branch"], &problem["seq"]),
        (&"trip".into(), &"main".into(), &1.into())
    );
    assert_eq!(seen["problems"].as_array().unwrap().len(), 1, "{seen}");
    assert_eq!(std::fs::read_dir(weir.path()).unwrap().count(), 0, "the tour left something behind");
}

#[test]
fn the_tour_tells_its_steps_and_cleans_up() {
    let weir = Weir::new();
    let temporary = tempfile::tempdir().unwrap();
    let tour = |args: &[&str]| {
        let output = weir.command().args(args).env("TMPDIR", temporary.path()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let text = tour(&["demo"]);
    let headings: Vec<&str> =
        text.lines().filter(|line| !line.is_empty() && !line.starts_with(' ')).skip(2).collect();
    assert_eq!(
        headings,
        ["1. Append", "2. Fork", "3. Kill", "4. Verify", "5. Tamper", "6. Verify again", "What next"]
    );
    assert!(text.contains("acknowledged but lost       0"), "{text}");
    assert!(text.contains("damaged  stream `trip`, branch `main`, seq 1"), "{text}");
    assert!(!text.contains('\u{1b}'), "colour without a terminal");
    assert_eq!(std::fs::read_dir(temporary.path()).unwrap().count(), 0, "the tour left something behind");

    let text = tour(&["demo", "--keep"]);
    let kept = std::fs::read_dir(temporary.path()).unwrap().next().unwrap().unwrap().path();
    assert!(text.contains(&format!("weir cat --data-dir {}/data --stream steps", kept.display())), "{text}");
    let steps = weir.ok(&["count", "--stream", "steps", "--data-dir", &format!("{}/data", kept.display())]);
    assert!(steps.trim().parse::<u64>().unwrap() > 0);
}
