// A Node version that wrangler and miniflare support: the Node that runs this script, or else a Node binary from npm.

import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { UserError } from './errors.mjs';
import { npm } from './npm.mjs';
import { exe, IS_PACKAGE, TOOLS_DIR } from './paths.mjs';
import { outputOf } from './run.mjs';
import { atLeast, MIN_NODE, NODE_PACKAGES } from './versions.mjs';

const nodeFolder = path.join(TOOLS_DIR, 'node');
const pinnedPackage = NODE_PACKAGES[`${process.platform}-${process.arch}`];

const ownNodeIsNewEnough = atLeast(process.versions.node, MIN_NODE);

/** Returns the path of the Node binary for wrangler and the tests. @throws {UserError} when the binary is not installed */
export function nodeBinary() {
  // npm checks the Node version of the npm package (`engines`), so the package installs no other Node.
  if (ownNodeIsNewEnough || IS_PACKAGE) return process.execPath;
  const bin = pinnedPackage ? path.join(nodeFolder, 'node_modules', pinnedPackage.name, 'bin', exe('node')) : '';
  if (!existsSync(bin)) {
    throw new UserError(`Node ${MIN_NODE} or newer is needed, and is not installed.`, 'Install it with: npm run setup');
  }
  return bin;
}

/** Whether the Node binary is installed in the pinned version. */
export function nodeIsReady() {
  if (ownNodeIsNewEnough) return true;
  if (!pinnedPackage) return false;
  const bin = path.join(nodeFolder, 'node_modules', pinnedPackage.name, 'bin', exe('node'));
  return existsSync(bin) && outputOf(bin, ['--version']) === `v${pinnedPackage.version}`;
}

/** The title of the set-up step. */
export const nodeTitle = `Node ${pinnedPackage?.version ?? MIN_NODE}, because ${process.versions.node} is too old for wrangler`;

/** Installs the pinned Node binary into the tools folder. */
export async function installNode() {
  if (!pinnedPackage) {
    throw new UserError(
      `wrangler needs Node ${MIN_NODE} or newer, but this is Node ${process.versions.node}.`,
      `npm has no Node binary for ${process.platform}-${process.arch}. Install a newer Node from https://nodejs.org.`,
    );
  }
  mkdirSync(nodeFolder, { recursive: true });
  // With a package.json in this folder, npm does not use the package.json of the project.
  writeFileSync(path.join(nodeFolder, 'package.json'), '{"private": true}\n');
  const { name, version } = pinnedPackage;
  await npm(['install', '--prefix', nodeFolder, '--ignore-scripts', '--no-audit', '--no-fund', '--no-package-lock', `${name}@${version}`], {
    cwd: nodeFolder,
  });
  if (!nodeIsReady()) {
    throw new UserError(
      `The Node binary of ${name}@${version} does not work.`,
      `Install Node ${MIN_NODE} or newer from https://nodejs.org.`,
    );
  }
}
