/**
 * Runs a program, and logs the lines of its standard input and output: `node wire-log.mjs FILE PROGRAM ARGUMENTS...`. A line of the log is
 * `{t, dir, msg}`. `t`: time since the start, in ms; `dir`: `>` to the program, `<` from the program; `msg`: the JSON of the line.
 */

import { spawn } from 'node:child_process';
import { appendFileSync } from 'node:fs';

const [file, program, ...args] = process.argv.slice(2);
const child = spawn(program, args, { stdio: ['pipe', 'pipe', 'inherit'] });

function forward(from, to, dir) {
  let rest = '';
  from.setEncoding('utf8');
  from.on('data', (text) => {
    const lines = (rest + text).split('\n');
    rest = lines.pop();
    const t = Math.round(performance.now());
    // What is not JSON is no message: agents also print notes for the user.
    for (const line of lines.filter((item) => item.startsWith('{'))) {
      appendFileSync(file, `{"t":${t},"dir":"${dir}","msg":${line.trim()}}\n`);
    }
    to.write(text);
  });
  from.on('end', () => to.end());
}

forward(process.stdin, child.stdin, '>');
forward(child.stdout, process.stdout, '<');
child.stdin.on('error', () => {});
child.on('exit', (code) => process.exit(code ?? 1));
