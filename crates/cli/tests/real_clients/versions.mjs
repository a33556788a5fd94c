const { of } = JSON.parse(process.argv[2]);
const exported = {};
for (const name of of) exported[name] = Object.keys(await import(name));
console.log(JSON.stringify(exported));
