// A Node that wrangler and miniflare accept: this one, or one from npm for machines with an older one.

import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { UserError } from './errors.mjs';
import { npm } from './npm.mjs';
import { exe, TOOLS_DIR } from './paths.mjs';
import { outputOf } from './run.mjs';
import { atLeast, MIN_NODE, NODE_PACKAGES } from './versions.mjs';

const folder = path.join(TOOLS_DIR, 'node');
const wanted = NODE_PACKAGES[`${process.platform}-${process.arch}`];

/** Whether the Node that runs this script will do. */
export const ownNodeIsNewEnough = atLeast(process.versions.node, MIN_NODE);

/** The Node binary that runs wrangler and the tests; it is there after set-up. */
export function nodeBinary() {
  if (ownNodeIsNewEnough) return process.execPath;
  const bin = wanted ? path.join(folder, 'node_modules', wanted.name, 'bin', exe('node')) : '';
  if (!existsSync(bin)) {
    throw new UserError(`This needs Node ${MIN_NODE} or newer, and set-up has not run yet.`, 'Run: npm run setup');
  }
  return bin;
}

/** Whether {@link nodeBinary} has its binary in the pinned version. */
export function nodeIsReady() {
  if (ownNodeIsNewEnough) return true;
  if (!wanted) return false;
  const bin = path.join(folder, 'node_modules', wanted.name, 'bin', exe('node'));
  return existsSync(bin) && outputOf(bin, ['--version']) === `v${wanted.version}`;
}

/** What set-up calls the step. */
export const nodeTitle = `Node ${wanted?.version ?? MIN_NODE} for wrangler (this machine has ${process.versions.node})`;

/** Installs the pinned Node binary into the tools folder. */
export async function installNode() {
  if (!wanted) {
    throw new UserError(
      `wrangler needs Node ${MIN_NODE} or newer; this machine has ${process.versions.node}.`,
      `npm has no Node binary for ${process.platform}-${process.arch}: install a newer Node from https://nodejs.org.`,
    );
  }
  mkdirSync(folder, { recursive: true });
  // A package of its own keeps npm from looking for one further up, in the project.
  writeFileSync(path.join(folder, 'package.json'), '{"private": true}\n');
  const { name, version } = wanted;
  await npm(
    ['install', '--prefix', folder, '--ignore-scripts', '--no-audit', '--no-fund', '--no-package-lock', `${name}@${version}`],
    { cwd: folder },
  );
  if (!nodeIsReady()) {
    throw new UserError(`${name}@${version} did not bring a working Node.`, `Install Node ${MIN_NODE} or newer from https://nodejs.org.`);
  }
}
