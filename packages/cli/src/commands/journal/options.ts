import { InvalidArgumentError, Option } from '@commander-js/extra-typings'

/** `--type`, which may be repeated. */
export function typeOption(): Option<'--type <name>', undefined, string[], string[]> {
  return new Option('--type <name>', 'only events of this type, or of a beginning such as tool.*; may be repeated')
    .default([] as string[], 'all')
    .argParser((name: string, all: string[]) => [...all, name])
}

/** A seq from the command line. */
export function seqOf(text: string): number {
  const seq = Number(text)
  if (text.trim() === '' || !Number.isSafeInteger(seq) || seq < 0) {
    throw new InvalidArgumentError('It must be a whole number from 0.')
  }
  return seq
}
