/**
 * The title of a permission request: a sentence about what an approval would do, such as "Run a command". Agents choose the names of
 * tools and all arguments, so names are escaped and cut. Without DOM, because the service worker imports this module.
 */

import { cutText } from './cut-text.ts';
import { escapeText } from './escape-invisible.ts';
import { isShellCall, parseArguments, parsePlan, parseQuestions } from './tool-arguments.ts';

type Fields = Record<string, unknown>;

/** Limits on names and on quoted texts in a title, in characters. */
const MAX_NAME_LENGTH = 48;
const MAX_QUOTE_LENGTH = 72;

/**
 * Returns the title of a request.
 * @param counts the number of lines that the request's edits add and remove, if they are known
 */
export function requestTitle(tool: string, input: unknown, counts?: { added: number; removed: number }): string {
  const { questions } = parseQuestions(input);
  if (questions.length > 0) return questions.length > 1 ? `Answer ${questions.length} questions` : 'Answer a question';
  if (parsePlan(tool, input)) return 'Approve this plan';
  const fields: Fields = typeof input === 'object' && input !== null ? (input as Fields) : {};
  return mcpTitle(tool) ?? editTitle(tool, input, counts) ?? commonTitle(tool, fields) ?? `Use ${cleanName(tool)}`;
}

/** A text on one line, without invisible characters. */
const clean = (text: string, maxLength: number) =>
  cutText(
    escapeText(
      text
        .slice(0, 4 * maxLength)
        .replace(/\s+/g, ' ')
        .trim(),
    ),
    maxLength,
  );
const cleanName = (text: string) => clean(text, MAX_NAME_LENGTH);
const quote = (text: string) => `“${clean(text, MAX_QUOTE_LENGTH)}”`;
/** The last segment of a path. The content of the request shows the whole path. */
const fileName = (path: string) => cleanName(path.slice(-1000).split(/[\\/]/).filter(Boolean).at(-1) ?? path);

const firstText = (fields: Fields, names: string[]): string | undefined =>
  names.map((field) => fields[field]).find((value): value is string => typeof value === 'string' && value.trim() !== '');

/** The title of a call that changes files. A call that also runs a command has none, because the title would not mention the command. */
function editTitle(tool: string, input: unknown, counts?: { added: number; removed: number }): string | undefined {
  const { edits, command } = parseArguments(input);
  const [first] = edits;
  if (!first || command !== undefined) return undefined;
  const paths = new Set(edits.map(({ path }) => path));
  const lines = counts ? ` (+${counts.added} -${counts.removed})` : '';
  if (paths.size > 1) return `Change ${paths.size} files${lines}`;
  // A tool with another name may also replace an existing file.
  const verb = edits.some(({ before }) => before !== '') ? 'Change' : /create/i.test(tool) ? 'Create' : 'Write';
  return `${verb} ${fileName(first.path)}${lines}`;
}

const PATHS = ['file_path', 'filePath', 'path', 'absolute_path', 'dir_path', 'notebook_path'];

/** Titles of the tools of the coding agents, for arguments that have the needed field. */
const COMMON_TOOLS: [tool: RegExp, title: (fields: Fields) => string | undefined][] = [
  [/^(web_?fetch|fetch|fetch_url)$/i, (fields) => `Fetch ${hostOf(firstText(fields, ['url']))}`],
  [/^(google_)?web_?search$/i, (fields) => withText(fields, ['query'], (text) => `Search the web for ${quote(text)}`)],
  [
    /^(grep|glob|search|grep_search|file_search|search_file_content)$/i,
    (fields) => withText(fields, ['pattern', 'query'], (text) => `Search files for ${quote(text)}`),
  ],
  [/^(read|read_?file|view|view_image)$/i, (fields) => withText(fields, PATHS, (path) => `Read ${fileName(path)}`)],
  [/^(ls|list|list_directory|list_dir)$/i, (fields) => withText(fields, PATHS, (path) => `List ${fileName(path)}`)],
  [/^(delete|delete_?file)$/i, (fields) => withText(fields, PATHS, (path) => `Delete ${fileName(path)}`)],
  [/^(move|move_?file)$/i, (fields) => withText(fields, PATHS, (path) => `Move ${fileName(path)}`)],
  [
    /^(edit|write|notebook_?edit|write_file|replace|str_replace|apply_patch)$/i,
    (fields) => withText(fields, PATHS, (path) => `Change ${fileName(path)}`),
  ],
  [
    /^(task|agent)$/i,
    (fields) => `Start a subagent${withText(fields, ['description'], (text) => `: ${clean(text, MAX_QUOTE_LENGTH)}`) ?? ''}`,
  ],
  [/^skill$/i, (fields) => withText(fields, ['skill', 'name', 'command'], (text) => `Use the skill ${cleanName(text)}`)],
  [/^(todo_?write|update_?todos?)$/i, () => 'Update the to-do list'],
  [/^enter_?plan_?mode$/i, () => 'Start planning'],
  [/^exit_?plan_?mode$/i, () => 'Stop planning'],
  [/^switch_?mode$/i, () => 'Change the mode'],
];

function withText(fields: Fields, names: string[], title: (text: string) => string): string | undefined {
  const text = firstText(fields, names);
  return text === undefined ? undefined : title(text);
}

function commonTitle(tool: string, fields: Fields): string | undefined {
  if (isShellCall(tool, fields)) return parseArguments(fields).edits.length > 0 ? undefined : 'Run a command';
  return COMMON_TOOLS.find(([pattern]) => pattern.test(tool))?.[1](fields);
}

/** The host of an address in its ASCII form, so that no other script imitates a known host. */
function hostOf(url: string | undefined): string {
  const host = URL.canParse(url ?? '') ? new URL(url ?? '').host : '';
  return host === '' ? 'a page' : cleanName(host);
}

const MCP_TOOL = /^mcp__(.{1,200}?)__(.{1,200})$/s;

/** The spelling of well-known servers. */
const BRANDS: ReadonlyMap<string, string> = new Map(
  ['Airtable', 'Asana', 'Atlassian', 'BigQuery', 'Bitbucket', 'ClickUp', 'Cloudflare', 'Confluence', 'Context7', 'DeepWiki', 'Discord']
    .concat(['Docker', 'Dropbox', 'Figma', 'Firebase', 'GitHub', 'GitLab', 'Gmail', 'Google Calendar', 'Google Drive', 'Grafana'])
    .concat(['HubSpot', 'Hugging Face', 'Jira', 'Kubernetes', 'Linear', 'MongoDB', 'MySQL', 'Neon', 'Netlify', 'Notion', 'PayPal'])
    .concat(['Playwright', 'PostgreSQL', 'PostHog', 'Puppeteer', 'Redis', 'Sentry', 'Shopify', 'Slack', 'Snowflake', 'SQLite', 'Stripe'])
    .concat(['Supabase', 'Todoist', 'Trello', 'Vercel', 'Zapier'])
    .map((brand) => [brand.replaceAll(' ', '').toLowerCase(), brand]),
);

/** Verbs whose object is a new or a single thing, so that a singular noun has an article. */
const VERBS_WITH_ARTICLE =
  /^(add|append|archive|close|create|delete|edit|fork|insert|make|merge|move|open|post|publish|remove|rename|reopen|send|submit|update|upload|write)$/;

/** The title of a call to an MCP server: `mcp__github__create_issue` becomes "Create an issue on GitHub". */
function mcpTitle(tool: string): string | undefined {
  const [, server, call] = MCP_TOOL.exec(tool) ?? [];
  if (server === undefined || call === undefined) return undefined;
  const [verb = '', ...noun] = splitWords(call);
  if (verb === '') return undefined;
  const [first = '', last = ''] = [noun[0], noun.at(-1)];
  const hasArticle =
    VERBS_WITH_ARTICLE.test(verb) && /^[a-z]/.test(first) && !/s$/.test(last) && !/^(a|an|the|to|from|in|by|for)$/.test(first);
  const article = !hasArticle ? [] : /^([aeio]|un|up)/.test(first) ? ['an'] : ['a'];
  const sentence = [verb, ...article, ...noun].join(' ');
  return `${cleanName(sentence[0]?.toUpperCase() + sentence.slice(1))} on ${serverName(server)}`;
}

/** Splits `create_issue`, `create-issue` and `createIssue` into lower-case words. Capitals such as `URL` stay together. */
const splitWords = (text: string): string[] =>
  text
    .replace(/([a-z0-9])([A-Z])/g, '$1 $2')
    .split(/[\s_.-]+/)
    .filter(Boolean)
    .map((word) => (/^[A-Z]{2,}$/.test(word) ? word : word.toLowerCase()));

function serverName(server: string): string {
  const short = server.replace(/^(claude_ai_|plugin_)/, '').replace(/[-_ ]?(mcp|server)\b/gi, '');
  return BRANDS.get(short.replace(/[\s_-]/g, '').toLowerCase()) ?? cleanName(server);
}
