// Rust: the toolchain of rust-toolchain.toml with its wasm target, and the host programs of the build and of the fuzzer.

import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync } from 'node:fs';
import path from 'node:path';
import { UserError } from './errors.mjs';
import { addFiles } from './inputs.mjs';
import { exe, inProject, TOOLS_DIR } from './paths.mjs';
import { CARGO_PROGRESS, cargoProgress } from './progress.mjs';
import { outputOf, run } from './run.mjs';

const WASM = 'wasm32-unknown-unknown';

/** The channel, components and targets that the build requires. */
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
  const sysroot = outputOf('rustup', ['run', channel, 'rustc', '--print', 'sysroot']) ?? sysrootWithoutRustup();
  if (!sysroot) return false;
  const programs = { clippy: 'cargo-clippy', rustfmt: 'rustfmt' };
  return (
    targets.every((target) => existsSync(path.join(sysroot, 'lib', 'rustlib', target, 'lib'))) &&
    components.every((name) => !programs[name] || existsSync(path.join(sysroot, 'bin', exe(programs[name]))))
  );
}

/** A distribution's Rust has no rustup; it will do when it has the wasm target. */
function sysrootWithoutRustup() {
  return outputOf('rustup', ['--version']) === undefined ? outputOf('rustc', ['--print', 'sysroot']) : undefined;
}

/**
 * Installs what is missing. rustup is called by name: with RUSTUP_AUTO_INSTALL=0 the toolchain file alone
 * fetches nothing.
 * @param {(state: string) => void} update
 */
export async function installToolchain(update) {
  if (outputOf('rustup', ['--version']) === undefined) {
    if (outputOf('cargo', ['--version']) === undefined) {
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

/** The sources of the program that makes the JavaScript bindings of the wasm. */
const BIND_SOURCES = ['tools/bind/Cargo.toml', 'tools/bind/Cargo.lock', 'tools/bind/src'];

/** The path of the program. Its name contains a hash of its sources. */
export function bindTool() {
  const sources = addFiles(createHash('sha256'), BIND_SOURCES).digest('hex').slice(0, 16);
  return path.join(TOOLS_DIR, 'bin', exe(`session-gateway-bind-${sources}`));
}

/** Whether the program is compiled. */
export const bindToolIsReady = () => existsSync(bindTool());

/**
 * Compiles the program.
 * @param {(state: string) => void} update
 */
export async function installBindTool(update) {
  const target = path.join(TOOLS_DIR, 'bind');
  const manifest = inProject('tools', 'bind', 'Cargo.toml');
  await run('cargo', ['build', '--release', '--locked', '--manifest-path', manifest, '--target-dir', target], {
    env: hostToolEnv(),
    onLine: cargoProgress(update),
  });
  mkdirSync(path.dirname(bindTool()), { recursive: true });
  renameSync(path.join(target, 'release', exe('session-gateway-bind')), bindTool());
  // The compiled crates are not needed again.
  rmSync(target, { recursive: true, force: true });
}

/** The environment for compiling host programs, without the caller's cargo settings for the hub. */
function hostToolEnv() {
  return {
    ...CARGO_PROGRESS,
    CARGO_BUILD_TARGET: undefined,
    RUSTFLAGS: undefined,
    RUSTUP_TOOLCHAIN: wantedToolchain().channel,
  };
}

/** The toolchain of the fuzzer alone: its instrumentation is not in a stable one. */
export const NIGHTLY = 'nightly';

/** Whether there is a nightly toolchain. */
export const nightlyIsReady = () => outputOf('rustup', ['run', NIGHTLY, 'rustc', '--version']) !== undefined;

/** Installs the nightly toolchain. */
export function installNightly() {
  return run('rustup', ['toolchain', 'install', NIGHTLY, '--profile', 'minimal', '--no-self-update']);
}

const FUZZ_TOOL = { crate: 'cargo-fuzz', version: '0.13.2' };

/** Where cargo-fuzz is in the wanted version, on the PATH or in the tools folder; else `undefined`. */
export function fuzzTool() {
  const { crate, version } = FUZZ_TOOL;
  return [crate, path.join(TOOLS_DIR, 'bin', exe(crate))].find((candidate) => {
    return outputOf(candidate, ['--version'])?.split(/\s+/).at(-1) === version;
  });
}

/** @param {(state: string) => void} update */
export async function installFuzzTool(update) {
  const { crate, version } = FUZZ_TOOL;
  const target = path.join(TOOLS_DIR, 'target');
  mkdirSync(TOOLS_DIR, { recursive: true });
  await run('cargo', ['install', crate, '--version', version, '--locked', '--force', '--root', TOOLS_DIR], {
    // Away from the project, whose own cargo configuration is not the tool's business.
    cwd: TOOLS_DIR,
    env: { ...hostToolEnv(), CARGO_TARGET_DIR: target },
    onLine: cargoProgress(update),
  });
  rmSync(target, { recursive: true, force: true });
}
