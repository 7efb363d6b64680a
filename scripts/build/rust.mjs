// Installs Rust: the toolchain of rust-toolchain.toml with its wasm target, the bindings program, and the fuzzer.

import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync } from 'node:fs';
import path from 'node:path';
import { UserError } from '../lib/errors.mjs';
import { addFiles } from './inputs.mjs';
import { exe, inProject, ROOT, TOOLS_DIR } from '../lib/paths.mjs';
import { CARGO_PROGRESS, cargoProgress } from '../lib/progress.mjs';
import { outputOf, run } from '../lib/run.mjs';

const WASM = 'wasm32-unknown-unknown';

/** Reads the channel, components and targets of rust-toolchain.toml, without a library: npm may not have installed any. */
function wantedToolchain() {
  const text = readFileSync(inProject('rust-toolchain.toml'), 'utf8');
  const list = (key) => {
    const found = text.match(new RegExp(`^${key}\\s*=\\s*\\[([^\\]]*)\\]`, 'm'));
    return found ? [...found[1].matchAll(/"([^"]+)"/g)].map((match) => match[1]) : [];
  };
  const channel = process.env.RUSTUP_TOOLCHAIN || text.match(/^channel\s*=\s*"([^"]+)"/m)?.[1];
  if (!channel) throw new UserError('rust-toolchain.toml has no channel.', 'Restore the file with: git checkout rust-toolchain.toml');
  return { channel, components: list('components'), targets: list('targets') };
}

/** The title of the set-up step. */
export const toolchainTitle = () => `Rust ${wantedToolchain().channel} and its wasm target`;

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

/** Returns the sysroot of a Rust that was installed without rustup, such as a package of the distribution. */
function sysrootWithoutRustup() {
  return outputOf('rustup', ['--version']) === undefined ? outputOf('rustc', ['--print', 'sysroot']) : undefined;
}

/**
 * Installs the toolchain explicitly. With RUSTUP_AUTO_INSTALL=0, rustup would not install a missing toolchain.
 * @param {(state: string) => void} update
 */
export async function installToolchain(update) {
  if (outputOf('rustup', ['--version']) === undefined) {
    if (outputOf('cargo', ['--version']) === undefined) {
      throw new UserError(
        'Rust is not installed: neither rustup nor cargo is on the PATH.',
        'Install it with rustup (https://rustup.rs), open a new terminal and try again.',
      );
    }
    throw new UserError(
      `The installed Rust has no clippy, rustfmt or standard library for ${WASM}, and there is no rustup to add them.`,
      'Install Rust with rustup (https://rustup.rs), or add them with your package manager.',
    );
  }
  const { channel, components, targets } = wantedToolchain();
  const onLine = (line) => {
    const state = line.match(/^info: (.*)/)?.[1];
    if (state) update(state);
  };
  const options = [...components.flatMap((name) => ['--component', name]), ...targets.flatMap((name) => ['--target', name])];
  await run('rustup', ['toolchain', 'install', channel, '--profile', 'minimal', '--no-self-update', ...options], { onLine });
}

/** The sources of the program that generates the JavaScript bindings of the wasm. */
const BIND_SOURCES = ['tools/bind/Cargo.toml', 'tools/bind/Cargo.lock', 'tools/bind/src'];

/** Returns the path of the compiled bindings program. The name contains a hash of the sources. @param {string} [root] of the sources */
export function bindToolPath(root = ROOT) {
  const sources = addFiles(createHash('sha256'), BIND_SOURCES, root).digest('hex').slice(0, 16);
  return path.join(TOOLS_DIR, 'bin', exe(`session-gateway-bind-${sources}`));
}

/** @param {string} [root] */
export const bindToolIsReady = (root) => existsSync(bindToolPath(root));

/**
 * @param {(state: string) => void} update
 * @param {string} [root] of the sources
 */
export async function installBindTool(update, root = ROOT) {
  const target = path.join(TOOLS_DIR, 'bind');
  const manifest = path.join(root, 'tools', 'bind', 'Cargo.toml');
  await run('cargo', ['build', '--release', '--locked', '--manifest-path', manifest, '--target-dir', target], {
    env: hostToolEnv(),
    onLine: cargoProgress(update),
  });
  mkdirSync(path.dirname(bindToolPath(root)), { recursive: true });
  renameSync(path.join(target, 'release', exe('session-gateway-bind')), bindToolPath(root));
  // The compiled crates are not needed again.
  rmSync(target, { recursive: true, force: true });
}

/** Returns the environment for compiling programs that run on this computer, without the caller's cargo settings for the hub. */
function hostToolEnv() {
  return {
    ...CARGO_PROGRESS,
    CARGO_BUILD_TARGET: undefined,
    RUSTFLAGS: undefined,
    RUSTUP_TOOLCHAIN: wantedToolchain().channel,
  };
}

/** The Rust toolchain for the fuzzer. Only the nightly toolchain has the instrumentation that the fuzzer needs. */
export const NIGHTLY = 'nightly';

export const nightlyIsReady = () => outputOf('rustup', ['run', NIGHTLY, 'rustc', '--version']) !== undefined;

export function installNightly() {
  return run('rustup', ['toolchain', 'install', NIGHTLY, '--profile', 'minimal', '--no-self-update']);
}

const FUZZ_TOOL = { crate: 'cargo-fuzz', version: '0.13.2' };

/** Returns the command of cargo-fuzz in the pinned version: on the PATH, or in the tools folder. Undefined if this version is not installed. */
export function findFuzzTool() {
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
    // Outside the project, because the project's cargo configuration is for the hub.
    cwd: TOOLS_DIR,
    env: { ...hostToolEnv(), CARGO_TARGET_DIR: target },
    onLine: cargoProgress(update),
  });
  rmSync(target, { recursive: true, force: true });
}
