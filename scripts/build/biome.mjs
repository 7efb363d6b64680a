// Biome, the linter and formatter of JavaScript and TypeScript. biome.jsonc has its rules.

import { inProject } from '../lib/paths.mjs';

/**
 * @param {string[]} args
 * @returns {[command: string, args: string[]]}
 */
export const biomeCommand = (args) => [process.execPath, [inProject('node_modules', '@biomejs', 'biome', 'bin', 'biome'), ...args]];
