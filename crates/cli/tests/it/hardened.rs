//! What the built program has against faults in its C parts.
#![cfg(target_os = "linux")]

/// SQLite, zstd and QuickJS are compiled with stack protectors (`.cargo/config.toml`); a program without any does not name this function.
#[test]
fn the_c_parts_check_their_stacks() {
    let program = std::fs::read(env!("CARGO_BIN_EXE_weir")).unwrap();
    let name = b"__stack_chk_fail\0";
    assert!(
        program.windows(name.len()).any(|part| part == name),
        "no function of the program checks its stack"
    );
}
