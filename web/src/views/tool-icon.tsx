/** The icon of a tool. */

import { FilePen, FileText, Globe, ListTodo, Search, Terminal, Wrench } from 'lucide-preact';

const ICONS: [RegExp, typeof Wrench][] = [
  [/todo|plan/i, ListTodo],
  [/bash|shell|exec|command|terminal/i, Terminal],
  [/edit|write|patch/i, FilePen],
  [/grep|glob|search|find|list|ls/i, Search],
  [/fetch|web|http/i, Globe],
  [/read|file|notebook/i, FileText],
];

/** Returns an icon that fits the tool's name. */
export function ToolIcon({ name }: { name: string }) {
  const Icon = ICONS.find(([pattern]) => pattern.test(name))?.[1] ?? Wrench;
  return <Icon size={15} />;
}
