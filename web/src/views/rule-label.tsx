/** Shows the label of a rule, with the words of a command in a monospaced font. */

import { splitRuleLabel } from '../content/rule-label.ts';
import { EscapedText } from '../ui/escaped-text.tsx';

export function RuleLabel({ rule }: { rule: { kind: string; label: string } }) {
  return (
    <span>
      {splitRuleLabel(rule).map(({ text, isCode }, index) => (
        <span key={index} class={isCode ? 'mono' : undefined}>
          <EscapedText text={text} />
        </span>
      ))}
    </span>
  );
}
