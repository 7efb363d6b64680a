/** Lists the exports of a built worker. */

import path from 'node:path';
import { Miniflare } from 'miniflare';
import { readWranglerToml } from '../../../scripts/lib/worker-settings.mjs';

/** A worker that imports the built worker, and responds with the exports of the built worker. */
const REPORTER = `
  import * as worker from './index.js';
  const methodNames = (exported) => Object.getOwnPropertyNames(exported.prototype).filter((name) => name !== 'constructor');
  export default {
    fetch: () => Response.json(Object.fromEntries(Object.entries(worker).map(([name, exported]) => [name, methodNames(exported).sort()]))),
  };`;

/**
 * @param {string} folder of a build, with `index.js` and `index_bg.wasm`
 * @returns {Promise<Record<string, string[]>>} each exported class with the names of its methods
 */
export async function exportsOf(folder) {
  const miniflare = new Miniflare({
    modules: [
      { type: 'ESModule', path: path.join(folder, 'reporter.js'), contents: REPORTER },
      { type: 'ESModule', path: path.join(folder, 'index.js') },
      { type: 'CompiledWasm', path: path.join(folder, 'index_bg.wasm') },
    ],
    modulesRoot: folder,
    compatibilityDate: readWranglerToml().compatibility_date,
  });
  try {
    const url = await miniflare.ready;
    const response = await fetch(url);
    if (!response.ok) throw new Error(`The worker cannot be loaded: ${await response.text()}`);
    return await response.json();
  } finally {
    await miniflare.dispose();
  }
}
