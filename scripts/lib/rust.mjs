// Rust: the toolchain of rust-toolchain.toml with its wasm target, and the two cargo tools of the build.

import { existsSync, mkdirSync, readFileSync, rmSync } from 'node:fs';
import path from 'node:path';
import { UserError } from './errors.mjs';
import { exe, inProject, TOOLS_DIR } from './paths.mjs';
import { CARGO_PROGRESS, cargoProgress } from './progress.mjs';
import { ask, run } from './run.mjs';

const WASM = 'wasm32-unknown-unknown';

/** The toolchain that cargo will use here, what it must have, and whether rustup manages it. */
function wantedToolchain() {
  const text = readFileSync(inProject('rust-toolchain.toml'), 'utf8');
  const list = (key) => {
    const found = text.match(new RegExp(`^${key}\\s*=\\s*\\[([^\\]]*)\\]`, 'm'));
    return found ? [...found[1].matchAll(/"([^"]+)"/g)].map((match) => match[1]) : [];
  };
  const channel = process.env.RUSTUP_TOOLCHAIN || text.match(/^channel\s*=\s*"([^"]+)"/m)?.[1];
  if (!channel) throw new UserError('rust-toolchain.toml names no channel.');
  return { channel, components: list('components'), targets: list('targets') };
}

/** What set-up calls the step. */
export const toolchainTitle = () => `Rust ${wantedToolchain().channel} with clippy, rustfmt and the wasm target`;

/** Whether cargo, clippy, rustfmt and the wasm target of the wanted toolchain are installed. */
export function toolchainIsReady() {
  const { channel, components, targets } = wantedToolchain();
  const sysroot = ask('rustup', ['run', channel, 'rustc', '--print', 'sysroot']) ?? sysrootWithoutRustup();
  if (!sysroot) return false;
  const programs = { clippy: 'cargo-clippy', rustfmt: 'rustfmt' };
  return (
    targets.every((target) => existsSync(path.join(sysroot, 'lib', 'rustlib', target, 'lib'))) &&
    components.every((name) => !programs[name] || existsSync(path.join(sysroot, 'bin', exe(programs[name]))))
  );
}

/** A distribution's Rust has no rustup; it will do when it has the wasm target. */
function sysrootWithoutRustup() {
  return ask('rustup', ['--version']) === undefined ? ask('rustc', ['--print', 'sysroot']) : undefined;
}

/**
 * Installs what is missing. rustup is called by name: with RUSTUP_AUTO_INSTALL=0 the toolchain file alone
 * fetches nothing.
 * @param {(state: string) => void} update
 */
export async function installToolchain(update) {
  if (ask('rustup', ['--version']) === undefined) {
    if (ask('cargo', ['--version']) === undefined) {
      throw new UserError(
        'Rust is not installed: neither rustup nor cargo is on the PATH.',
        'Install it with rustup (https://rustup.rs), open a new terminal and start this again.',
      );
    }
    throw new UserError(
      `This Rust lacks clippy, rustfmt or the standard library for ${WASM}, and there is no rustup to add them.`,
      'Install Rust with rustup (https://rustup.rs), or add them with your package manager.',
    );
  }
  const { channel, components, targets } = wantedToolchain();
  const onLine = (line) => {
    const state = line.match(/^info: (.*)/)?.[1];
    if (state) update(state);
  };
  const wanted = [...components.flatMap((name) => ['--component', name]), ...targets.flatMap((name) => ['--target', name])];
  await run('rustup', ['toolchain', 'install', channel, '--profile', 'minimal', '--no-self-update', ...wanted], { onLine });
}

/**
 * Where a cargo tool is, in the wanted version: on the PATH or in the tools folder.
 * @param {{program: string, version: string}} tool
 * @returns {string | undefined}
 */
export function findCargoTool({ program, version }) {
  return [program, path.join(TOOLS_DIR, 'bin', exe(program))].find((candidate) => {
    // worker-build says `0.8.7`, wasm-bindgen `wasm-bindgen 0.2.129`.
    return ask(candidate, ['--version'])?.split(/\s+/).at(-1) === version;
  });
}

/**
 * Compiles a cargo tool into the tools folder.
 * @param {{crate: string, version: string}} tool
 * @param {(state: string) => void} update
 */
export async function installCargoTool({ crate, version }, update) {
  await run('cargo', ['install', crate, '--version', version, '--locked', '--force', '--root', TOOLS_DIR], {
    // Away from the project, whose own cargo configuration is not the tools' business.
    cwd: TOOLS_DIR,
    env: {
      ...CARGO_PROGRESS,
      CARGO_TARGET_DIR: toolsTargetDir,
      CARGO_BUILD_TARGET: undefined,
      RUSTFLAGS: undefined,
      RUSTUP_TOOLCHAIN: wantedToolchain().channel,
    },
    onLine: cargoProgress(update),
  });
}

/** The tools share many crates, so they share the directory they are compiled in. */
const toolsTargetDir = path.join(TOOLS_DIR, 'target');

/** The compiled crates of the tools are not needed again: 1 GB. */
export function removeToolsTarget() {
  rmSync(toolsTargetDir, { recursive: true, force: true });
}

/** The toolchain of the fuzzer alone: its instrumentation is not in a stable one. */
export const NIGHTLY = 'nightly';

/** Whether there is a nightly toolchain. */
export const nightlyIsReady = () => ask('rustup', ['run', NIGHTLY, 'rustc', '--version']) !== undefined;

/** Installs it. */
export function installNightly() {
  return run('rustup', ['toolchain', 'install', NIGHTLY, '--profile', 'minimal', '--no-self-update']);
}

const FUZZ_TOOL = { crate: 'cargo-fuzz', program: 'cargo-fuzz', version: '0.13.2' };

/** Where cargo-fuzz is, if anywhere. */
export const fuzzTool = () => findCargoTool(FUZZ_TOOL);

/** @param {(state: string) => void} update */
export async function installFuzzTool(update) {
  mkdirSync(TOOLS_DIR, { recursive: true });
  await installCargoTool(FUZZ_TOOL, update);
  removeToolsTarget();
}
