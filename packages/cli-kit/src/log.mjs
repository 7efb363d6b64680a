/** The log on standard error, because other programs read ids from standard output. Its times are local, with the offset from UTC. */

/** Returns a text without escape sequences and other characters that control the terminal, except line breaks: agents write such texts. */
export const printable = (text) => `${text}`.replace(/\x1b\[[0-?]*[ -/]*[@-~]|(?![\n\t])[\p{Cc}\p{Cf}]/gu, '');

/**
 * Further lines of a text are indented, so that no text looks like another entry.
 * @param {{verbose?: boolean, write?: (line: string) => void}} [options]
 * @returns {{info: (text: string) => void, warn: (text: string) => void, debug: (text: string) => void}}
 */
export function makeLog({ verbose = false, write = (line) => process.stderr.write(line) } = {}) {
  const line = (text) =>
    write(`${new Date().toTimeString().replace(/ GMT(...)(..).*/, '$1:$2')} ${printable(text).replaceAll('\n', '\n  ')}\n`);
  return {
    info: line,
    warn: (text) => line(`warning: ${text}`),
    debug: verbose ? line : () => {},
  };
}
