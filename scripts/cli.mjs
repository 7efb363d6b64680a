#!/usr/bin/env node
// `npx session-gateway-hub`: the commands of the npm package. Each is a script of this folder.

const args = process.argv.slice(2);
const end = args.includes('--') ? args.indexOf('--') : args.length;
const at = args.slice(0, end).findLastIndex((arg) => arg === '--data' || arg.startsWith('--data='));
if (at !== -1) {
  const [option, next = ''] = args.splice(at, args[at] === '--data' ? 2 : 1);
  // Set before any import: modules compute the paths of their files when they are loaded.
  process.env.HUB_DATA_DIR = option === '--data' ? next : option.slice('--data='.length);
}
const { runCommand } = await import('./lib/package/command.mjs');
await runCommand(args);
