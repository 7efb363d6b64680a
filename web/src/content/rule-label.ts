/** The labels of rules, as CLIs write them: in words, with the words of a command in backticks. */

export interface LabelPart {
  text: string;
  isCode: boolean;
}

/** Splits the label of a rule at its backticks. The command of an exact rule may itself contain backticks. */
export function splitRuleLabel({ kind, label }: { kind: string; label: string }): LabelPart[] {
  const exact = /^(exactly )`([^]*)`$/.exec(label);
  const parts = exact ? ['', exact[1] ?? '', exact[2] ?? ''] : label.split('`');
  // CLIs of earlier versions write only the words of the command. An odd number of backticks is not a pair.
  if (kind !== 'command' || (!exact && parts.length % 2 === 0)) return [{ text: label, isCode: false }];
  if (parts.length === 1) return [{ text: label, isCode: true }];
  const isCode = (index: number) => (exact ? index === 2 : index % 2 === 1);
  return parts.map((text, index) => ({ text, isCode: isCode(index) })).filter(({ text }) => text !== '');
}
