#!/usr/bin/env node
// `npx session-gateway-hub`: the commands of the npm package. Each command is a script of this folder.

const args = process.argv.slice(2);
const optionsEnd = args.includes('--') ? args.indexOf('--') : args.length;
const dataIndex = args.slice(0, optionsEnd).findLastIndex((arg) => arg === '--data' || arg.startsWith('--data='));
let data;
if (dataIndex !== -1) {
  const [option, folder = ''] = args.splice(dataIndex, args[dataIndex] === '--data' ? 2 : 1);
  data = option === '--data' ? folder : option.slice('--data='.length);
  // Set before any import, because modules compute the paths of their files when they are loaded.
  process.env.HUB_DATA_DIR = data;
}
const { runCommand } = await import('./run-command.mjs');
await runCommand(args, data);
