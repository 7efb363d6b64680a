// Builds this crate with the official tools, and writes the exports to tests/e2e/official-exports.json. The test
// tests/e2e/exports.test.mjs compares the exports of the project's build with this file. Run this script after an update of the crates
// `worker` or `wasm-bindgen`.

import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { parseCommandLine } from '../lib/command-line.mjs';
import { main } from '../lib/errors.mjs';
import { nodeBinary } from '../lib/node.mjs';
import { exe, inProject, TOOLS_DIR } from '../lib/paths.mjs';
import { CARGO_PROGRESS, cargoProgress, runStep } from '../lib/progress.mjs';
import { run } from '../lib/run.mjs';
import { setup } from '../build/setup.mjs';

const USAGE = `Usage: node scripts/dev/official-exports.mjs

Compiles worker-build and wasm-bindgen-cli (once, about ten minutes on two cores), builds the worker with them in a
temporary folder, and writes its exports to tests/e2e/official-exports.json.

  --help  this text`;

/** The tools. Each tool must have the version of a crate in Cargo.lock. */
const TOOLS = { 'worker-build': 'worker', 'wasm-bindgen-cli': 'wasm-bindgen' };

await main(async () => {
  parseCommandLine(process.argv.slice(2), USAGE);
  await setup();
  const root = path.join(TOOLS_DIR, 'official');
  mkdirSync(root, { recursive: true });
  const versions = Object.fromEntries(Object.entries(TOOLS).map(([tool, crate]) => [tool, lockedVersion(crate)]));
  for (const [tool, version] of Object.entries(versions)) {
    await runStep(`${tool} ${version}`, (update) =>
      run('cargo', ['install', tool, '--version', version, '--locked', '--root', root], {
        cwd: root,
        env: CARGO_PROGRESS,
        onLine: cargoProgress(update),
      }),
    );
  }
  const folder = mkdtempSync(path.join(tmpdir(), 'hub-official-'));
  try {
    await runStep('wasm build', () => buildWithOfficialTools(path.join(root, 'bin'), folder));
    const printExports = `
      import { exportsOf } from ${JSON.stringify(inProject('tests', 'e2e', 'lib', 'exports.mjs'))};
      console.log(JSON.stringify(await exportsOf(${JSON.stringify(folder)})));`;
    const exports = JSON.parse(await run(nodeBinary(), ['--input-type=module', '-e', printExports]));
    writeFileSync(inProject('tests', 'e2e', 'official-exports.json'), `${JSON.stringify({ versions, exports }, null, 2)}\n`);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

/**
 * @param {string} bin folder of the tools
 * @param {string} folder for the build
 */
async function buildWithOfficialTools(bin, folder) {
  // Without these variables, worker-build downloads other versions of the tools.
  const env = {
    WASM_BINDGEN_BIN: path.join(bin, exe('wasm-bindgen')),
    WASM_OPT_BIN: inProject('node_modules', 'binaryen', 'bin', 'wasm-opt'),
    ESBUILD_BIN: inProject('node_modules', 'esbuild', 'bin', 'esbuild'),
  };
  await run(path.join(bin, exe('worker-build')), ['--release', '--no-opt', '--out-dir', folder], { env });
}

/** @param {string} crate */
function lockedVersion(crate) {
  return readFileSync(inProject('Cargo.lock'), 'utf8').match(new RegExp(`^name = "${crate}"\\nversion = "([^"]+)"`, 'm'))[1];
}
