import ts from 'typescript'

const BASE = ['writeFile', 'appendFile', 'open', 'copyFile', 'cp', 'link', 'rename', 'truncate']

/** What of `node:fs`, and of the engine's own atomic write, puts bytes on disk or under another name. */
export const WRITING_CALLS: ReadonlySet<string> = new Set([
  ...BASE,
  ...BASE.map((name) => `${name}Sync`),
  'createWriteStream',
  'WriteStream',
  'atomicWriteFile',
])

const READING_FLAGS: ReadonlySet<string> = new Set(['r', 'rs', 'sr'])
const READING_CONSTANTS = /^O_(?:RDONLY|DIRECTORY|NOFOLLOW|NOATIME|NONBLOCK|SYNC|DSYNC)$/

/** The last name of a callee: `b` of `a.b(...)`, `import` of `import(...)`. Empty when it has none. */
export function callOf(callee: ts.Node): string {
  if (ts.isIdentifier(callee) || ts.isPrivateIdentifier(callee)) return callee.text
  if (ts.isPropertyAccessExpression(callee)) return callee.name.text
  return callee.kind === ts.SyntaxKind.ImportKeyword ? 'import' : ''
}

/** Whether a call is an `open` that can only read. Flags that can't be worked out here count as writing. */
export function isReadOnlyOpen(
  name: string,
  call: ts.CallExpression | ts.NewExpression,
  checker: ts.TypeChecker,
): boolean {
  if (name !== 'open' && name !== 'openSync') return false
  const flags = call.arguments?.[1]
  // `open(path, callback)` reads, as `open(path)` does.
  return flags === undefined || ts.isFunctionLike(flags) || readsOnly(flags, checker, 0)
}

function readsOnly(flags: ts.Expression, checker: ts.TypeChecker, depth: number): boolean {
  if (ts.isParenthesizedExpression(flags)) return readsOnly(flags.expression, checker, depth)
  if (ts.isStringLiteralLike(flags)) return READING_FLAGS.has(flags.text)
  if (ts.isNumericLiteral(flags)) return flags.text === '0'
  if (ts.isBinaryExpression(flags) && flags.operatorToken.kind === ts.SyntaxKind.BarToken) {
    return readsOnly(flags.left, checker, depth) && readsOnly(flags.right, checker, depth)
  }
  if (ts.isConditionalExpression(flags)) {
    return readsOnly(flags.whenTrue, checker, depth) && readsOnly(flags.whenFalse, checker, depth)
  }
  if (READING_CONSTANTS.test(callOf(flags))) return true
  if (!ts.isIdentifier(flags) || depth > 8) return false
  const declaration = checker.getSymbolAtLocation(flags)?.valueDeclaration
  const constant = declaration !== undefined && ts.isVariableDeclaration(declaration) && isConst(declaration)
  return constant && declaration.initializer !== undefined && readsOnly(declaration.initializer, checker, depth + 1)
}

function isConst(declaration: ts.VariableDeclaration): boolean {
  return (ts.getCombinedNodeFlags(declaration) & ts.NodeFlags.Const) !== 0
}
