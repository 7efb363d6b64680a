// The configuration with which wrangler runs or deploys the builds from any folder.

import { readFileSync } from 'node:fs';
import path from 'node:path';
import { inProject } from './paths.mjs';

/** The settings of wrangler.toml that are paths relative to it. */
const PATH_SETTINGS = ['main', 'directory', 'migrations_dir'];

/**
 * Returns the text of wrangler.toml without its build command, and with absolute paths, for a file in another folder.
 * @param {string} [toml]
 */
export function prebuiltConfig(toml = readFileSync(inProject('wrangler.toml'), 'utf8')) {
  const withoutBuild = toml.replace(/^\[build\]\n(?:[^[\n].*\n)*\n?/m, '');
  const pattern = new RegExp(`^(${PATH_SETTINGS.join('|')}) = "([^"]+)"`, 'gm');
  // A JSON string is also a string of TOML.
  return withoutBuild.replace(pattern, (_, name, place) => `${name} = ${JSON.stringify(path.join(inProject(), place))}`);
}
